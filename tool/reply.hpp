// Replies of Redis, read without a fall: whatever is not there reads as nothing.
#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sliding_log::tool {

/// Looks into a reply that somebody else owns.
class ReplyView {
  public:
    explicit ReplyView(const redisReply* reply) : reply_(reply) {}

    const redisReply* raw() const { return reply_; }
    bool isNil() const { return reply_ == nullptr || reply_->type == REDIS_REPLY_NIL; }
    bool isError() const { return reply_ != nullptr && reply_->type == REDIS_REPLY_ERROR; }
    bool isArray() const { return reply_ != nullptr && reply_->type == REDIS_REPLY_ARRAY; }

    /// Of a string, a status or an error; else empty.
    std::string_view text() const {
        return reply_ == nullptr || reply_->str == nullptr ? std::string_view()
                                                           : std::string_view(reply_->str, reply_->len);
    }

    /// An error's first word: NOPERM, MOVED, …
    std::string_view errorWord() const { return isError() ? text().substr(0, text().find(' ')) : std::string_view(); }

    /// An integer, or a string of digits, a score's fraction cut off.
    std::optional<std::int64_t> number() const;
    std::int64_t numberOr(std::int64_t otherwise) const { return number().value_or(otherwise); }

    std::size_t size() const { return isArray() ? reply_->elements : 0; }
    ReplyView operator[](std::size_t i) const { return ReplyView(i < size() ? reply_->element[i] : nullptr); }

    /// The value behind a name, in an array of names and values.
    ReplyView field(std::string_view name) const;

  private:
    const redisReply* reply_;
};

class Reply : public ReplyView {
  public:
    explicit Reply(redisReply* reply) : ReplyView(reply), owned_(reply) {}

  private:
    struct Free {
        void operator()(redisReply* reply) const { freeReplyObject(reply); }
    };
    std::unique_ptr<redisReply, Free> owned_;
};

/// The value of a field of INFO's text; empty when it is not there.
std::string_view infoField(std::string_view info, std::string_view field);

/// The same as a number, 0 where it is none.
std::int64_t infoNumber(std::string_view info, std::string_view field);

}  // namespace sliding_log::tool
