// Redis's replies to the scripts, decoded. Pure: values in, values out.
#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "limit/verdict.hpp"
#include "redis/store_error.hpp"

namespace sliding_log {

inline std::string_view replyText(const redisReply& reply) {
    return reply.str == nullptr ? std::string_view() : std::string_view(reply.str, reply.len);
}

/// What keeps the whole call from being decided: its error reply, or NotMaster where a group met a server that takes no
/// writes, so that nothing was logged. None: each group has an answer of its own.
StoreError checkCall(const redisReply& reply);

/// What a script says of one group of `requests` requests that ask `logs` logs: None when the reply is one
/// of its shapes, and its admissions follow from its verdicts.
StoreError checkGroup(const redisReply& group, std::size_t requests, std::size_t logs);

/// These are for the request in that place (0: the first) of a group that checkGroup() found to be None.
/// When it was logged, by Redis's clock: now, or the slot of one that is held; where it was admitted.
std::uint64_t readLoggedMs(const redisReply& group, std::size_t place, std::size_t logs);

/// As many verdicts as questions.
void readVerdicts(const redisReply& group, std::size_t place, std::span<const Question> questions,
                  std::span<Verdict> verdicts);

}  // namespace sliding_log
