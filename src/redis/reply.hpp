// Redis's replies to the scripts, decoded. Pure: values in, values out.
#pragma once

#include <hiredis/hiredis.h>

#include <span>
#include <string_view>

#include "limit/verdict.hpp"
#include "redis/store_error.hpp"

namespace sliding_log {

inline std::string_view replyText(const redisReply& reply) {
    return reply.str == nullptr ? std::string_view() : std::string_view(reply.str, reply.len);
}

/// Decodes lua/sliding_log.lua's reply for verdicts.size() keys. Verdicts are written only on None; a reply whose
/// admission does not follow from its verdicts is Unexpected.
StoreError decodeVerdicts(const redisReply& reply, std::span<Verdict> verdicts);

}  // namespace sliding_log
