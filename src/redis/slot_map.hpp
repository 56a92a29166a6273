// The reply to CLUSTER SLOTS, decoded: which master serves which slots. Pure.
#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sliding_log {

struct SlotRange {
    std::uint16_t first;
    std::uint16_t last;
    std::string host;  // a name or an address literal; empty: the server that answered
    int port;
    std::string address;  // the announced address, if the host is a name
};

/// Omits ranges whose master has no known address, and everything that does not have the form that servers send.
std::vector<SlotRange> readSlotMap(const redisReply& reply);

}  // namespace sliding_log
