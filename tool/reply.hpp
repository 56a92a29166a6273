// Reads replies of Redis without failing: what does not exist reads as empty.
#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sliding_log::tool {

/// A view of a reply that has another owner.
class ReplyView {
  public:
    explicit ReplyView(const redisReply* reply) : reply_(reply) {}

    const redisReply* raw() const { return reply_; }
    bool isNil() const { return reply_ == nullptr || reply_->type == REDIS_REPLY_NIL; }
    bool isError() const { return reply_ != nullptr && reply_->type == REDIS_REPLY_ERROR; }
    bool isArray() const { return reply_ != nullptr && reply_->type == REDIS_REPLY_ARRAY; }

    /// The text of a string, a status or an error; otherwise empty.
    std::string_view text() const {
        return reply_ == nullptr || reply_->str == nullptr ? std::string_view()
                                                           : std::string_view(reply_->str, reply_->len);
    }

    /// The first word of an error: NOPERM, MOVED, …
    std::string_view errorWord() const { return isError() ? text().substr(0, text().find(' ')) : std::string_view(); }

    /// An integer, or a string of digits; the fraction of a score is cut off.
    std::optional<std::int64_t> number() const;
    std::int64_t numberOr(std::int64_t otherwise) const { return number().value_or(otherwise); }

    std::size_t size() const { return isArray() ? reply_->elements : 0; }
    ReplyView operator[](std::size_t i) const { return ReplyView(i < size() ? reply_->element[i] : nullptr); }

    /// The value after a name, in an array of names and values.
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

/// The reply of TIME, as ms since 1970.
std::int64_t timeIn(ReplyView reply);

/// The value of a field in the text of INFO; empty if it is not there.
std::string_view infoField(std::string_view info, std::string_view field);

/// The same as a number; 0 if it is not a number.
std::int64_t infoNumber(std::string_view info, std::string_view field);

}  // namespace sliding_log::tool
