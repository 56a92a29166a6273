// Builds hiredis's reply trees in memory that is used again for the next reply, instead of a malloc per element,
// and refuses what hiredis would abort the worker on: a reply that nobody asked for (its async API asserts).
#pragma once

#include <hiredis/hiredis.h>

#include <array>
#include <cstddef>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

namespace sliding_log {

/// One per connection, set as the reader's privdata. A reply lives until the next one is begun: hiredis's async API
/// hands each to its callback before it parses on.
class ReplyArena {
  public:
    ReplyArena() = default;
    ReplyArena(const ReplyArena&) = delete;
    ReplyArena& operator=(const ReplyArena&) = delete;

    /// From here on the reader builds its replies in this arena, which must outlive it.
    void attach(redisReader& reader);

    /// How many replies are owed to us; without one only an error reply is let through, which hiredis takes as the
    /// server's reason to close ("max number of clients reached").
    void expectReply() { expected_++; }
    void replyDelivered() { expected_--; }
    std::size_t expected() const { return expected_; }

    /// From here on messages of this channel, too, come unasked. Only such as hiredis takes without an assert: arrays
    /// of three, of which the first two are texts, what it is and which channel. hiredis 1.2 asserts on the
    /// confirmation of a channel that it did not subscribe to.
    void expectMessages(std::string_view channel) { channels_.emplace_back(channel); }

    /// True when a reply was refused: the connection is about to be closed for it.
    bool hasRefused() const { return refused_; }

    /// For a new connection.
    void reset() {
        expected_ = 0;
        refused_ = false;
        channels_.clear();
    }

  private:
    struct Functions;

    bool isWelcome(const redisReadTask& task, int type, std::string_view text, std::size_t elements) const;
    redisReply* create(const redisReadTask& task, int type, std::string_view text = {}, std::size_t elements = 0);
    redisReply* createText(const redisReadTask& task, const char* text, std::size_t length);
    redisReply* createArray(const redisReadTask& task, std::size_t elements);

    std::array<std::byte, 4096> first_;
    std::pmr::monotonic_buffer_resource memory_{first_.data(), first_.size()};
    std::size_t expected_ = 0;
    std::vector<std::string> channels_;  // that we are subscribed to
    bool refused_ = false;
};

}  // namespace sliding_log
