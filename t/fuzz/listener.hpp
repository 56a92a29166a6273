// The side of the server: a real socket, so that hiredis runs as in a worker.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzz.hpp"

namespace sliding_log::fuzz {

/// A socket that listens on an abstract address until the process ends.
class Listener {
  public:
    Listener() {
        std::snprintf(path_, sizeof path_, "/tmp/sliding-log-fuzz-%d", static_cast<int>(getpid()));
        unlink(path_);
        fd_ = socket(AF_UNIX, SOCK_STREAM, 0);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strcpy(address.sun_path, path_);
        require(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && listen(fd_, 1) == 0,
                "the socket listens");
    }
    ~Listener() {
        close(fd_);
        unlink(path_);
    }

    const char* path() const { return path_; }
    int accepted() const { return accept(fd_, nullptr, nullptr); }

  private:
    char path_[64];
    int fd_;
};

}  // namespace sliding_log::fuzz
