// Builds the reply trees of hiredis in memory that is reused for the next reply, instead of a malloc per element, and
// refuses replies that were not requested: the async API of hiredis would abort the worker by an assert.
#pragma once

#include <hiredis/hiredis.h>

#include <array>
#include <cstddef>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

namespace sliding_log {

/// One per connection, set as privdata of the reader. A reply is valid until the next one begins: the async API of
/// hiredis passes each to its callback before it continues to parse.
class ReplyArena {
  public:
    ReplyArena() = default;
    ReplyArena(const ReplyArena&) = delete;
    ReplyArena& operator=(const ReplyArena&) = delete;

    /// Lets the reader build its replies in this arena, which must outlive it.
    void attach(redisReader& reader);

    /// The number of outstanding replies; if there is none, only an error reply is accepted, which hiredis takes as the
    /// server's reason to close ("max number of clients reached").
    void expectReply() { expected_++; }
    void replyDelivered() { expected_--; }
    std::size_t expected() const { return expected_; }

    /// Also accepts messages of this channel, which are not requested. Only those that hiredis accepts without an
    /// assert: arrays of three, the first two of them texts, the kind and the channel. hiredis 1.2 asserts on the
    /// confirmation of a channel that it did not subscribe to.
    void expectMessages(std::string_view channel) { channels_.emplace_back(channel); }

    /// True if a reply was refused: the connection is about to be closed because of it.
    bool hasRefused() const { return refused_; }

    /// Resets it for a new connection.
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
    std::vector<std::string> channels_;  // with a subscription
    bool refused_ = false;
};

}  // namespace sliding_log
