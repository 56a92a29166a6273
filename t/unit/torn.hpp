// The state in which a process leaves a table that it writes when it is killed or stopped.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>

namespace sliding_log {

/// Another process, which does nothing.
class OtherProcess {
  public:
    OtherProcess() : id_(fork()) {
        for (; id_ == 0;) {
            pause();
        }
    }
    ~OtherProcess() { end(); }
    OtherProcess(const OtherProcess&) = delete;
    OtherProcess& operator=(const OtherProcess&) = delete;

    void end() {
        if (!hasEnded_) {
            kill(id_, SIGKILL);
            waitpid(id_, nullptr, 0);
            hasEnded_ = true;
        }
    }
    pid_t id() const { return id_; }

  private:
    pid_t id_;
    bool hasEnded_ = false;
};

/// Undoes some of the writes that made `now` of `before`, word by word, as if `writer` had not come to them. The
/// sequence is at the beginning. Does nothing if nothing was written.
inline void tear(std::span<std::byte> now, std::span<const std::byte> before, pid_t writer, std::mt19937& random) {
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    if (std::memcmp(now.data(), before.data(), now.size()) == 0) {
        return;
    }
    for (std::size_t at = kWord; at < now.size(); at += kWord) {
        if (random() % 2 == 0) {
            std::memcpy(now.data() + at, before.data() + at, kWord);
        }
    }
    std::uint64_t sequence = 0;
    std::memcpy(&sequence, now.data(), kWord);
    sequence = ((sequence >> 32) - 1) << 32 | static_cast<std::uint64_t>(writer);
    std::memcpy(now.data(), &sequence, kWord);
}

}  // namespace sliding_log
