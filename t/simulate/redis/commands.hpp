// The commands of the simulated Redis, and the execution of one. Errors have the words of Redis 7.0.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keyspace.hpp"
#include "resp.hpp"
#include "server.hpp"

namespace simulate {

class Execution;

using Words = std::span<const std::string_view>;

enum Flags : unsigned {
    kWrites = 1 << 0,
    kGrows = 1 << 1,         // refused when there is no memory
    kWhileLoading = 1 << 2,  // also while the dataset is loaded
    kWhileStale = 1 << 3,    // also on a replica without its master
    kAlways = kWhileLoading | kWhileStale,
    kWhileBusy = 1 << 4,  // also while a script runs for long
    kWithoutAuth = 1 << 5,
    kNotInScripts = 1 << 6,
    kRunsScript = 1 << 7,  // its keys are counted, and it writes by other commands
};

struct CommandRow {
    std::string_view name;  // lower case
    void (*run)(Execution&, Words);
    int arity;  // of all words; negative: at least
    unsigned flags;
    int firstKey;  // 0: none
    int lastKey;   // negative: from the end
};

/// nullptr: there is no such command.
const CommandRow* commandNamed(std::string_view name);

/// The words of a command that are keys.
std::vector<std::string_view> keysOf(const CommandRow& row, Words words);

inline constexpr std::string_view kWrongType = "WRONGTYPE Operation against a key holding the wrong kind of value";
inline constexpr std::string_view kOutOfMemory = "OOM command not allowed when used memory > 'maxmemory'.";
inline constexpr std::string_view kReadOnly = "READONLY You can't write against a read only replica.";
inline constexpr std::string_view kSyntax = "ERR syntax error";
inline constexpr std::string_view kNotInteger = "ERR value is not an integer or out of range";

/// What a command works with: a server, and the time of the call. It is the same one for all commands of a script.
class Execution {
  public:
    Execution(ServerState& state, Client* client, std::string& reply);

    /// The effect of all of it is kept.
    void finish();

    /// Runs a command, and notes its effect.
    void run(const CommandRow& row, Words words);

    // ---- for commands

    std::string& reply() { return *reply_; }
    Keyspace& keys();
    ServerState& state() { return state_; }
    Client* client() { return client_; }
    std::int64_t nowMs() const { return nowUs_ / 1000; }
    std::int64_t nowUs() const { return nowUs_; }

    /// The key, unless it has expired: then it is removed, but not by a replica.
    Keyspace::Key* find(std::string_view name);

    /// The value of the key if it has this type. Without a key: nullptr, and `isWrong` is false.
    template <typename Type>
    Type* valueOf(std::string_view name, bool& isWrong) {
        Keyspace::Key* key = find(name);
        Type* value = key == nullptr ? nullptr : std::get_if<Type>(&key->value);
        isWrong = key != nullptr && value == nullptr;
        if (isWrong) {
            error(kWrongType);
        }
        return value;
    }

    /// Changes were made to this key, in so many entries. A ZSET or HASH that is empty is removed.
    void changed(std::string_view name, std::size_t entries = 1);
    void setExpiry(std::string_view name, std::int64_t ms);
    void remove(std::string_view name);

    /// Replaces the effect of the command that runs: it had one.
    void propagate(std::initializer_list<std::string_view> words);
    void propagate(std::vector<std::string> words);

    void error(std::string_view text) { appendError(*reply_, text); }

    void works(std::int64_t ns) { workNs_ += ns; }
    std::int64_t workNs() const { return workNs_; }

    /// Writes replies elsewhere; returns where they were written before.
    std::string* replyTo(std::string* reply) { return std::exchange(reply_, reply); }

    bool wasFull() const { return wasFull_; }
    void noteFull(bool wasFull) { wasFull_ = wasFull; }

    /// On a replica, for effects of its master.
    void obeyMaster() { obeysMaster_ = true; }
    bool obeysMaster() const { return obeysMaster_; }

    /// Only effects that are noted by propagate() are kept from here on, or again those of all commands.
    void setSilent(bool isSilent) { isSilent_ = isSilent; }
    void note(std::vector<std::string> words);
    bool keepsEffects() const;
    bool isMaster() const;

  private:
    ServerState& state_;
    Client* client_;
    std::string* reply_;
    std::int64_t nowUs_;
    std::int64_t workNs_ = 0;
    bool wasFull_ = false;
    bool obeysMaster_ = false;
    bool isSilent_ = false;
    bool isDirty_ = false;
    std::vector<std::vector<std::string>> instead_;
    Effect effect_;
};

/// Evicts a key by the policy; false if there is none.
bool evictOne(Execution& execution);

// ---- words as values

/// As Redis reads integers: without blanks, signs but -, and leading zeros.
bool integerIn(std::string_view text, std::int64_t& number);
bool doubleIn(std::string_view text, double& number);
bool isWord(std::string_view text, std::string_view upperCase);
std::string lowerCase(std::string_view text);

// ---- the commands, by files

std::span<const CommandRow> stringCommands();
std::span<const CommandRow> keyCommands();
std::span<const CommandRow> zsetCommands();
std::span<const CommandRow> hashCommands();
std::span<const CommandRow> connectionCommands();
std::span<const CommandRow> serverCommands();
std::span<const CommandRow> scriptCommands();

}  // namespace simulate
