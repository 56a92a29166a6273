// The errors of a Redis, or of the connection to it, as values.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

namespace sliding_log {

enum class StoreError {
    None,
    Down,       // no connection, or it was lost during the call
    Timeout,    // no reply within `timeout`
    NoScript,   // the server does not have the script
    TryAgain,   // LOADING, BUSY, TRYAGAIN, CLUSTERDOWN: the same call may work in a moment
    Moved,      // another node of the cluster serves the slot
    Ask,        // another node, which imports the slot, serves this call
    NotMaster,  // READONLY, MASTERDOWN: another server has to be asked
    OutOfMemory,
    WrongType,   // the key is not a log, or one of another algorithm
    Forbidden,   // NOAUTH, NOPERM
    Refused,     // any other error reply
    Unexpected,  // a reply that the script never returns: another form, or an impossible number
};

/// Their names in metrics, by StoreError.
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

/// NOPERM for the keys of a command that was not run; not for the command itself, nor inside a script.
inline bool isOfKeys(std::string_view message) {
    return message.starts_with("NOPERM this user has no permissions to access one of the keys") ||
           message.starts_with("NOPERM No permissions to access a key");  // from Redis 7.2 on
}

/// A command inside a script is not permitted: this affects all requests of the script.
inline bool isOfScripts(std::string_view message) {
    return message.find("ACL failure in script") != std::string_view::npos ||
           message.find("The user executing the script") != std::string_view::npos;  // until Redis 7.0
}

/// A log that the call has emptied before is on another node of the cluster from then on: its slot is under way. Of a
/// script, or of the native module.
inline bool isOfEmptiedLog(std::string_view message) {
    return message.find("ttempted to access a non local key") != std::string_view::npos;
}

/// No write is possible: snapshots fail, or there are too few replicas.
inline bool isOfAllWrites(std::string_view message) {
    return message.starts_with("MISCONF") || message.starts_with("NOREPLICAS");
}

/// TRYAGAIN: a slot is moving, and the keys of a command are not on one node; it was not run.
inline bool isOfSlotUnderWay(std::string_view message) {
    return message.starts_with("TRYAGAIN");
}

/// The script found that a slot is moving, and that the record of an override is not where its log is.
inline bool isOfOverride(std::string_view message) {
    return message.starts_with("TRYAGAIN the override");
}

/// TRYAGAIN, CLUSTERDOWN: the server works, but a slot is not served.
inline bool isOfSlots(std::string_view message) {
    return message.starts_with("TRYAGAIN") || message.starts_with("CLUSTERDOWN");
}

}  // namespace sliding_log
