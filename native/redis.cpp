#include "redis.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace sliding_log::native {

void unreadable() {
    throw Error{kUnreadable};
}

std::int64_t integerOf(double number) {
    constexpr double kBeyond = 9223372036854775808.0;
    return number >= -kBeyond && number < kBeyond ? static_cast<std::int64_t>(number)
                                                  : std::numeric_limits<std::int64_t>::min();
}

std::string textOf(double number) {
    std::array<char, 24> digits;
    return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), integerOf(number)).ptr};
}

bool numberIn(std::string_view text, double& number) {
    const std::string copy(text);  // ends with a zero
    const char* begin = copy.c_str();
    char* end = nullptr;
    number = std::strtod(begin, &end);
    if (end == begin) {
        return false;
    }
    if (*end == 'x' || *end == 'X') {
        number = static_cast<double>(std::strtoul(begin, &end, 16));
    }
    while (std::isspace(static_cast<unsigned char>(*end)) != 0) {
        end++;
    }
    return *end == '\0';
}

// ---- replies

Reply::~Reply() {
    if (reply_ != nullptr) {
        api::FreeCallReply(reply_);
    }
}

bool Reply::isError() const {
    return reply_ == nullptr || api::CallReplyType(reply_) == api::ReplyError;
}

std::string Reply::errorText() const {
    if (reply_ == nullptr) {
        return error_ != nullptr ? error_ : "ERR a command was refused";
    }
    std::size_t length = 0;
    const char* text = api::CallReplyStringPtr(reply_, &length);
    std::string_view error = text == nullptr ? std::string_view("ERR") : std::string_view(text, length);
    error = error.substr(error.starts_with('-') ? 1 : 0);
    return std::string(error.substr(0, error.find_first_of("\r\n")));
}

/// Redis 7.0 has other words than later versions and Valkey.
bool Reply::isForbidden() const {
    const std::string error = isError() ? errorText() : std::string();
    return error.starts_with("NOPERM ") || error.starts_with("ERR acl verification failed");
}

void Reply::raise() const {
    const std::string error = errorText();
    throw Error{isForbidden() ? "ERR ACL failure in script: " + error.substr(error.find(' ') + 1) : error};
}

double Reply::integer() const {
    return isInteger() ? static_cast<double>(api::CallReplyInteger(reply_)) : 0;
}

std::string_view Reply::at(std::size_t index) const {
    RedisModuleCallReply* element = api::CallReplyArrayElement(reply_, index);
    std::size_t length = 0;
    const char* text = element == nullptr ? nullptr : api::CallReplyStringPtr(element, &length);
    return text == nullptr ? std::string_view() : std::string_view(text, length);
}

bool Reply::text(std::string_view& out) const {
    if (reply_ == nullptr || api::CallReplyType(reply_) != api::ReplyString) {
        return false;
    }
    std::size_t length = 0;
    const char* text = api::CallReplyStringPtr(reply_, &length);
    out = {text, length};
    return text != nullptr;
}

// ---- commands

bool Redis::isFull(RedisModuleString* key) {
    if (hasWritten_) {
        return false;
    }
    if (!wasFull_) {
        wasFull_ = false;
        // The ratio is rounded, and below 1 there is memory. It includes what this command has allocated, so at 1 Redis
        // is asked: with the flag M it refuses by the memory that it found before the command. (Redis 7.0.0 does not
        // know M, and refuses all calls with it.) This SETRANGE changes nothing, whether there is a string or no key.
        if (api::GetUsedMemoryRatio() >= 1) {
            RedisModuleCallReply* asked = api::Call(context_, "SETRANGE", "EMslc", key, 0LL, "");
            const Reply reply(asked);
            wasFull_ = reply.isError() && !reply.errorText().starts_with("WRONGTYPE ");
        }
    }
    return *wasFull_;
}

Reply Redis::tried(Command command, RedisModuleString* key, std::span<const std::string_view> arguments) {
    if (command.grows && isFull(key)) {
        return Reply(kOutOfMemory);
    }
    std::vector<RedisModuleString*> strings;
    strings.reserve(arguments.size());
    for (std::string_view argument : arguments) {
        strings.push_back(api::CreateString(context_, argument.data(), argument.size()));
    }
    const char* format = command.writes ? command.asUser ? "!CEsv" : "!Esv" : command.asUser ? "CEsv" : "Esv";
    Reply reply(api::Call(context_, command.name, format, key, strings.data(), strings.size()));
    for (RedisModuleString* string : strings) {
        api::FreeString(context_, string);
    }
    // as in a script, a writing command that finds another type counts as a write, one without permission does not
    hasWritten_ = hasWritten_ || (command.writes && !(command.asUser && reply.isForbidden()));
    return reply;
}

Reply Redis::checked(Command command, RedisModuleString* key, std::span<const std::string_view> arguments) {
    Reply reply = tried(command, key, arguments);
    if (reply.isError()) {
        reply.raise();
    }
    return reply;
}

// ---- keys

NameBeside::NameBeside(const Redis& redis, const RedisModuleString* log, std::string_view suffix)
    : context_(redis.context()) {
    std::size_t length = 0;
    const char* text = api::StringPtrLen(log, &length);
    name_ = std::string(text, length).append(suffix);
    string_ = api::CreateString(context_, name_.data(), name_.size());
}

void Key::close() {
    if (key_ != nullptr) {
        api::CloseKey(key_);
        key_ = nullptr;
    }
}

RedisModuleKey* Key::handle() {
    if (key_ == nullptr) {
        key_ = api::OpenKey(redis_.context(), name_, api::kRead | api::kWrite);
    }
    return key_;
}

std::int64_t Key::endAfter(double ms) const {
    return clock_.server + integerOf(ms);
}

void Key::expireIn(double ms) {
    redis_.noteWrite();
    const long long end = endAfter(ms);
    api::SetAbsExpire(handle(), end);
    api::Replicate(redis_.context(), "PEXPIREAT", "sl", name_, end);
}

bool Key::expireLater(double ms) {
    redis_.noteWrite();
    const long long end = api::GetAbsExpire(handle());
    if (end == api::kNoExpire || endAfter(ms) <= end) {
        return false;
    }
    expireIn(ms);
    return true;
}

bool Key::oldest(double& score, std::string* member) {
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    if (api::ZsetFirstInScoreRange(handle(), -kInfinite, kInfinite, 0, 0) != api::kOk) {
        return false;
    }
    RedisModuleString* element = api::ZsetRangeCurrentElement(handle(), &score);
    if (element != nullptr) {
        if (member != nullptr && score < 0) {
            std::size_t length = 0;
            const char* text = api::StringPtrLen(element, &length);
            member->assign(text, length);
        }
        api::FreeString(redis_.context(), element);
    }
    api::ZsetRangeStop(handle());
    return element != nullptr;
}

bool Key::newest(double& score) {
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    if (api::ZsetLastInScoreRange(handle(), -kInfinite, kInfinite, 0, 0) != api::kOk) {
        return false;
    }
    RedisModuleString* element = api::ZsetRangeCurrentElement(handle(), &score);
    if (element != nullptr) {
        api::FreeString(redis_.context(), element);
    }
    api::ZsetRangeStop(handle());
    return element != nullptr;
}

bool Key::add(double time, RedisModuleString* member) {
    redis_.noteWrite();
    int flags = api::kZaddNx;
    if (api::ZsetAdd(handle(), time, member, &flags) != api::kOk || (flags & api::kZaddAdded) == 0) {
        return false;
    }
    api::Replicate(redis_.context(), "ZADD", "sls", name_, static_cast<long long>(integerOf(time)), member);
    return true;
}

bool Key::removeFewUpTo(double score, double& removed) {
    std::array<RedisModuleString*, 16> leaving{};
    std::size_t count = 0;
    if (api::ZsetFirstInScoreRange(handle(), 0, score, 0, 0) != api::kOk) {
        return false;
    }
    while (count < leaving.size() && api::ZsetRangeEndReached(handle()) == 0) {
        leaving[count++] = api::ZsetRangeCurrentElement(handle(), nullptr);
        api::ZsetRangeNext(handle());
    }
    const bool areFew = api::ZsetRangeEndReached(handle()) != 0;
    api::ZsetRangeStop(handle());
    if (areFew && count > 0) {
        redis_.noteWrite();
        api::Replicate(redis_.context(), "ZREMRANGEBYSCORE", "sll", name_, 0LL,
                       static_cast<long long>(integerOf(score)));
    }
    for (std::size_t i = 0; i < count; i++) {
        if (areFew) {
            api::ZsetRem(handle(), leaving[i], nullptr);
        }
        api::FreeString(redis_.context(), leaving[i]);
    }
    removed = static_cast<double>(count);
    return areFew;
}

std::string_view Key::bytes() {
    if (type() == api::Empty) {
        return {};
    }
    std::size_t length = 0;
    const char* bytes = api::StringDMA(handle(), &length, api::kRead);
    return bytes == nullptr ? std::string_view() : std::string_view(bytes, length);
}

const char* Key::set(std::string_view bytes, double ms) {
    if (redis_.isFull(name_)) {
        return kOutOfMemory;
    }
    redis_.noteWrite();
    const long long end = ms > 0 ? endAfter(ms) : api::GetAbsExpire(handle());
    RedisModuleString* value = api::CreateString(redis_.context(), bytes.data(), bytes.size());
    api::StringSet(handle(), value);
    if (end != api::kNoExpire) {
        api::SetAbsExpire(handle(), end);
        api::Replicate(redis_.context(), "SET", "sscl", name_, value, "PXAT", end);
    } else {
        api::Replicate(redis_.context(), "SET", "ss", name_, value);
    }
    api::FreeString(redis_.context(), value);
    return nullptr;
}

const char* Key::overwrite(std::size_t at, std::string_view bytes) {
    if (redis_.isFull(name_)) {
        return kOutOfMemory;
    }
    redis_.noteWrite();
    std::size_t length = 0;
    char* all = api::StringDMA(handle(), &length, api::kWrite);
    if (all == nullptr || at + bytes.size() > length) {
        close();
        constexpr Command kSetrange{.name = "SETRANGE", .writes = true, .grows = true};
        return redis_.tried(kSetrange, name_, {textOf(static_cast<double>(at)), bytes}).isError() ? kOutOfMemory
                                                                                                  : nullptr;
    }
    std::memcpy(all + at, bytes.data(), bytes.size());
    api::Replicate(redis_.context(), "SETRANGE", "slb", name_, static_cast<long long>(at), bytes.data(), bytes.size());
    return nullptr;
}

}  // namespace sliding_log::native
