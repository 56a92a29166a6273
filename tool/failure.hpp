// The exit statuses of the tool, and the exceptions that lead to them.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace sliding_log::tool {

enum class Status {
    Ok = 0,
    Warning = 1,     // doctor: something to look at; else: not found, or not complete
    Critical = 2,    // doctor only
    CouldNotAsk = 3  // wrong usage, no connection, or Redis refused; of top and export: a part of it
};

/// Wrong usage; the message says what was expected.
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Of an option: `"--option" has invalid value "text", expected ...`.
struct InvalidValue : UsageError {
    InvalidValue(std::string ofOption, std::string whatOfIt)
        : UsageError("\"" + ofOption + "\" " + whatOfIt), option(std::move(ofOption)), complaint(std::move(whatOfIt)) {}

    std::string option;
    std::string complaint;  // without the option
};

/// No reply from Redis, or an unusable one. The message has no secrets.
struct CouldNotAsk : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The result cannot be written: standard output is full or closed, or a temporary file cannot be written.
struct CouldNotWrite : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// SIGINT, SIGTERM or SIGHUP was received: temporary keys and files are removed before the tool ends.
struct Interrupted : std::exception {
    const char* what() const noexcept override { return "interrupted"; }
};

}  // namespace sliding_log::tool
