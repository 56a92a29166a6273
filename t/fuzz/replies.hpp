// Replies of a server, read by hiredis into the arena as in a connection.
#pragma once

#include <hiredis/hiredis.h>

#include <memory>

#include "fuzz.hpp"
#include "redis/reply_arena.hpp"

namespace sliding_log::fuzz {

/// Calls visit(reply) for each complete reply in the rest of the input. It is read in pieces of `piece` bytes.
template <typename Visit>
void forEachReply(Input& input, std::size_t piece, Visit visit) {
    ReplyArena arena;
    const std::unique_ptr<redisReader, decltype(&redisReaderFree)> reader(redisReaderCreateWithFunctions(nullptr),
                                                                          redisReaderFree);
    arena.attach(*reader);
    arena.expectReply();
    while (!input.isEmpty()) {
        const std::string_view bytes = input.text(piece);
        redisReaderFeed(reader.get(), bytes.data(), bytes.size());
        void* reply = nullptr;
        do {
            reply = nullptr;
            if (redisReaderGetReply(reader.get(), &reply) != REDIS_OK) {
                return;
            }
            if (reply != nullptr) {
                visit(*static_cast<const redisReply*>(reply));
            }
        } while (reply != nullptr);
    }
}

}  // namespace sliding_log::fuzz
