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
    std::string address;  // of a host that is a name, where the server told one
};

/// Ranges whose master has no known address are left out, and whatever is none of the shapes that servers send.
std::vector<SlotRange> readSlotMap(const redisReply& reply);

}  // namespace sliding_log
