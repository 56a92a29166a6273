// What can go wrong between us and a Redis, as values: who gets one decides what it means.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

namespace sliding_log {

enum class StoreError {
    None,
    Down,       // no connection, or it was lost with the call on it
    Timeout,    // no answer inside `timeout`
    NoScript,   // the server does not know the script
    TryAgain,   // LOADING, BUSY, TRYAGAIN, CLUSTERDOWN: the same call may work in a moment
    Moved,      // another node of the cluster serves the slot
    Ask,        // another one serves this call, which the slot is on its way to
    NotMaster,  // READONLY, MASTERDOWN: another server is the one to ask
    OutOfMemory,
    WrongType,   // the key is none of our logs, or one of another algorithm
    Forbidden,   // NOAUTH, NOPERM
    Refused,     // any other error the server answered
    Unexpected,  // a reply that the script never gives: another shape, or a number that cannot be
};

/// As metrics call them, by StoreError.
inline constexpr std::string_view kStoreErrorNames[] = {
    "none",       "down",          "timeout",    "no_script", "try_again", "moved",      "ask",
    "not_master", "out_of_memory", "wrong_type", "forbidden", "refused",   "unexpected",
};
inline constexpr std::size_t kStoreErrors = std::size(kStoreErrorNames);
static_assert(kStoreErrors == static_cast<std::size_t>(StoreError::Unexpected) + 1);

/// The kind of an error reply, from its first word.
inline StoreError classifyError(std::string_view message) {
    const std::string_view word = message.substr(0, message.find(' '));
    if (word == "NOSCRIPT") {
        return StoreError::NoScript;
    }
    if (word == "LOADING" || word == "BUSY" || word == "TRYAGAIN" || word == "CLUSTERDOWN") {
        return StoreError::TryAgain;
    }
    if (word == "MOVED") {
        return StoreError::Moved;
    }
    if (word == "ASK") {
        return StoreError::Ask;
    }
    if (word == "READONLY" || word == "MASTERDOWN") {
        return StoreError::NotMaster;
    }
    if (word == "OOM") {
        return StoreError::OutOfMemory;
    }
    if (word == "WRONGTYPE") {
        return StoreError::WrongType;
    }
    if (word == "NOAUTH" || word == "NOPERM") {
        return StoreError::Forbidden;
    }
    return StoreError::Refused;
}

/// NOPERM for the keys of a command, which was not run; not for the command, nor in a script.
inline bool isOfKeys(std::string_view message) {
    return message.starts_with("NOPERM this user has no permissions to access one of the keys") ||
           message.starts_with("NOPERM No permissions to access a key");  // from Redis 7.2 on
}

/// A command of a script is forbidden: the same for all whom the script decides.
inline bool isOfScripts(std::string_view message) {
    return message.find("ACL failure in script") != std::string_view::npos ||
           message.find("The user executing the script") != std::string_view::npos;  // until Redis 7.0
}

/// TRYAGAIN: a slot is on its way, and the keys of a command are not together; it was not run.
inline bool isOfSlotUnderWay(std::string_view message) {
    return message.starts_with("TRYAGAIN");
}

/// TRYAGAIN, CLUSTERDOWN: the server is well, but a slot is not.
inline bool isOfSlots(std::string_view message) {
    return message.starts_with("TRYAGAIN") || message.starts_with("CLUSTERDOWN");
}

}  // namespace sliding_log
