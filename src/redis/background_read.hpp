// Reads a password file in a thread, so that a file system that takes long stops no worker. The thread lives for one
// read; it takes no memory from malloc, and runs no signal handler of nginx. Pure, without nginx.
#pragma once

#include "redis/password_file.hpp"

namespace sliding_log {

class BackgroundRead {
  public:
    BackgroundRead() = default;
    ~BackgroundRead();
    BackgroundRead(const BackgroundRead&) = delete;
    BackgroundRead& operator=(const BackgroundRead&) = delete;

    /// Begins to read, unless a read is under way. The path must live as long as the process. An errno if there can be
    /// no thread; otherwise 0. Throws std::bad_alloc.
    int begin(const char* path);

    bool isUnderWay() const { return job_ != nullptr; }

    /// Ends a read that has come to its end; false if it is still under way.
    bool take(PasswordFile& into);

  private:
    struct Job;

    static void* run(void* shared);
    static void release(Job* job);

    Job* job_ = nullptr;  // shared with its thread: who is last frees it
};

}  // namespace sliding_log
