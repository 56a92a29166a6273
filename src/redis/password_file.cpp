#include "redis/password_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace sliding_log {

void PasswordFile::read(const char* path, Pipe pipe) noexcept {
    length_ = 0;
    error_ = 0;
    const int file = open(path, O_RDONLY | O_CLOEXEC | (pipe == Pipe::Awaited ? 0 : O_NONBLOCK));
    if (file < 0) {
        error_ = errno;
        return;
    }
    while (length_ < content_.size()) {
        const ssize_t got = ::read(file, content_.data() + length_, content_.size() - length_);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            error_ = got < 0 ? errno : 0;
            break;
        }
        length_ += static_cast<std::size_t>(got);
    }
    close(file);
}

std::string_view PasswordFile::password() const {
    const std::string_view text(content_.data(), length_);
    return error_ != 0 || length_ == content_.size() ? std::string_view() : text.substr(0, text.find_first_of("\r\n"));
}

}  // namespace sliding_log
