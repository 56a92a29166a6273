// What a decision needs of the server that it runs in: commands, as the scripts call them, and keys, which are opened
// directly if that saves time. Effects are replicated as plain commands.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "limit/bounds.hpp"
#include "redis_module.hpp"

namespace sliding_log::native {

/// The error of a batch.
struct Error {
    std::string text;
};

inline constexpr const char* kWrongType = "WRONGTYPE Operation against a key holding the wrong kind of value";
inline constexpr const char* kOutOfMemory = "OOM command not allowed when used memory > 'maxmemory'.";

inline constexpr const char* kUnreadable = "ERR a log cannot be read";

/// Throws the error for contents that no log has, for which a script raises an error of Lua.
[[noreturn]] void unreadable();

/// A number as an integer, as the scripts write whole numbers; cut off at what an integer can hold.
std::int64_t integerOf(double number);
std::string textOf(double number);

/// As Lua reads a number from text; false if there is none.
bool numberIn(std::string_view text, double& number);

/// The latest possible time (ms), and the longest wait. Larger numbers are errors.
inline constexpr auto kLatestTime = static_cast<double>(kLatestTimeMs);

/// Beyond this doubles are not exact.
inline constexpr double kMostExact = 9007199254740992.0;  // 2^53

struct Command {
    const char* name;
    bool writes = false;
    bool grows = false;   // refused when there is no memory
    bool asUser = false;  // refused if the user who calls may not run it for this key
};

inline constexpr Command kPexpire{.name = "PEXPIRE", .writes = true};

class Reply {
  public:
    explicit Reply(RedisModuleCallReply* reply) : reply_(reply) {}
    explicit Reply(const char* error) : error_(error) {}
    ~Reply();
    Reply(Reply&& other) noexcept : reply_(std::exchange(other.reply_, nullptr)), error_(other.error_) {}
    Reply(const Reply&) = delete;
    Reply& operator=(const Reply&) = delete;

    bool isError() const;

    /// True if the user who calls lacks the rights.
    bool isForbidden() const;

    /// Throws the error that the reply is, in the words that a script gets.
    [[noreturn]] void raise() const;

    bool isInteger() const { return reply_ != nullptr && api::CallReplyType(reply_) == api::ReplyInteger; }
    bool isArray() const { return reply_ != nullptr && api::CallReplyType(reply_) == api::ReplyArray; }
    std::string errorText() const;
    double integer() const;

    /// The elements of an array.
    std::size_t size() const { return api::CallReplyLength(reply_); }
    std::string_view at(std::size_t index) const;

    /// Sets `out` to the string; false if the reply is not one.
    bool text(std::string_view& out) const;

  private:
    RedisModuleCallReply* reply_ = nullptr;
    const char* error_ = nullptr;
};

/// The server, during one command.
class Redis {
  public:
    explicit Redis(RedisModuleCtx* context) : context_(context) {}

    RedisModuleCtx* context() const { return context_; }

    /// Calls the command for this key. An error is in the reply.
    Reply tried(Command command, RedisModuleString* key, std::span<const std::string_view> arguments);
    Reply tried(Command command, RedisModuleString* key, std::initializer_list<std::string_view> arguments) {
        return tried(command, key, std::span(arguments.begin(), arguments.size()));
    }

    /// Calls the command for this key. Throws an error.
    template <typename Arguments>
    Reply call(Command command, RedisModuleString* key, const Arguments& arguments) {
        return checked(command, key, std::span<const std::string_view>(arguments));
    }
    Reply call(Command command, RedisModuleString* key, std::initializer_list<std::string_view> arguments) {
        return checked(command, key, std::span(arguments.begin(), arguments.size()));
    }

    /// True if there is no memory for more, as a script would find: by the memory before this command, after evictions,
    /// and never after something was written. The key is not changed.
    bool isFull(RedisModuleString* key);

    /// To be called when something is written without a command.
    void noteWrite() { hasWritten_ = true; }

  private:
    Reply checked(Command command, RedisModuleString* key, std::span<const std::string_view> arguments);

    RedisModuleCtx* context_;
    bool hasWritten_ = false;
    std::optional<bool> wasFull_;  // before this command; nullopt until that is asked
};

/// Part of the error of a command, and of a script, for a key that is on another node.
inline constexpr std::string_view kNonLocalKey = "non local key";

/// The name of a key beside a log, in the same hash slot.
class NameBeside {
  public:
    NameBeside(const Redis& redis, const RedisModuleString* log, std::string_view suffix);
    ~NameBeside() { api::FreeString(context_, string_); }
    NameBeside(const NameBeside&) = delete;
    NameBeside& operator=(const NameBeside&) = delete;

    RedisModuleString* string() const { return string_; }
    std::string_view text() const { return name_; }

  private:
    RedisModuleCtx* context_;
    std::string name_;
    RedisModuleString* string_;
};

/// The time of a call.
struct Clock {
    double now = 0;
    bool isOwn = true;        // now is of this server's clock, not the caller's
    std::int64_t server = 0;  // this server's time

    std::string text() const { return textOf(now); }
};

/// A key, opened when it is first used. It must be closed before a command is called for it.
class Key {
  public:
    Key(Redis& redis, const Clock& clock, RedisModuleString* name) : redis_(redis), clock_(clock), name_(name) {}
    ~Key() { close(); }
    Key(const Key&) = delete;
    Key& operator=(const Key&) = delete;

    void close();

    int type() { return api::KeyType(handle()); }

    // ---- time to live

    void expireIn(double ms);

    /// As PEXPIRE GT: false if the key already lives as long, or for ever.
    bool expireLater(double ms);

    // ---- a ZSET

    std::size_t count() { return api::ValueLength(handle()); }

    /// False if the ZSET is empty. If the score is negative, `member` is set, too.
    bool oldest(double& score, std::string* member = nullptr);
    bool newest(double& score);

    /// Adds a member with this time, unless there is one; true if it was added. There must be memory.
    bool add(double time, RedisModuleString* member);

    /// Removes the members with scores from 0 to this one and sets their number; false if there are many: none is
    /// removed.
    bool removeFewUpTo(double score, double& removed);

    // ---- a STRING

    /// Valid until something is written.
    std::string_view bytes();

    /// Like SET with PX: an error if there is no memory, else nullptr. ms: 0 keeps the time to live.
    const char* set(std::string_view bytes, double ms);

    /// Like SETRANGE; usually within the present bytes.
    const char* overwrite(std::size_t at, std::string_view bytes);

  private:
    RedisModuleKey* handle();
    std::int64_t endAfter(double ms) const;

    Redis& redis_;
    const Clock& clock_;
    RedisModuleString* name_;
    RedisModuleKey* key_ = nullptr;
};

}  // namespace sliding_log::native
