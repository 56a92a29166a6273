#include "password.hpp"

#include <sys/stat.h>

#include <cstdio>
#include <utility>

#include "arguments.hpp"
#include "redis/password_file.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::chrono::minutes kReadEvery{1};

/// What can be read once only, such as `<(command)` of a shell.
bool isPipe(const char* path) {
    struct stat found {};
    return stat(path, &found) == 0 && S_ISFIFO(found.st_mode);
}

}  // namespace

Password Password::ofFile(std::string path, std::string_view option) {
    PasswordFile file;
    const bool isOnce = isPipe(path.c_str());
    file.read(path.c_str(), isOnce ? PasswordFile::Pipe::Awaited : PasswordFile::Pipe::Ignored);
    if (file.password().empty()) {
        refuseValue(option, path, "a readable file with the password in its first line");
    }
    Password password{std::string(file.password())};
    if (!isOnce) {
        password.path_ = std::move(path);
        password.readAt_ = Clock::now();
    }
    return password;
}

const std::string& Password::renew() {
    if (path_.empty()) {
        return text_;
    }
    PasswordFile file;
    file.read(path_.c_str());
    readAt_ = Clock::now();
    if (!file.password().empty()) {
        text_ = file.password();
        isKept_ = false;
    } else if (!std::exchange(isKept_, true)) {
        std::fprintf(stderr, "sliding-log: %s has no password any more: the last one stays\n",
                     printable(path_).c_str());
    }
    return text_;
}

const std::string& Password::renewAtTimes() {
    return path_.empty() || Clock::now() - readAt_ < kReadEvery ? text_ : renew();
}

}  // namespace sliding_log::tool
