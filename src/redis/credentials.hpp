// The user and the password of one store in one worker. A password file is read again before each connection and once a
// minute, by a thread, so that a token which lives for minutes can be changed without a reload.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "redis/background_read.hpp"
#include "redis/timer.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

class CredentialsOwner {
  public:
    /// The file was read: connections that were authenticated with another version are to be authenticated again.
    virtual void passwordRead() = 0;

  protected:
    ~CredentialsOwner() = default;
};

class PasswordWaiter {
  public:
    /// authentication() is as current as it can be.
    virtual void passwordKnown() = 0;

  protected:
    ~PasswordWaiter() = default;
};

class Credentials {
  public:
    Credentials(const RedisSettings& settings, CredentialsOwner& owner, ngx_log_t* log);

    /// Reads the file again, if there is one, and then calls the waiter, once: possibly before the return, and at most
    /// twice `connect_timeout` later. What a file cannot tell by then, or does not have, stays as it was.
    void refresh(PasswordWaiter& waiter);

    /// The waiter is not called any more.
    void forget(PasswordWaiter& waiter);

    /// AUTH as a command; empty if there is no password.
    const std::string& authentication() const { return authentication_; }

    /// Another number for each other password.
    std::uint64_t version() const { return version_; }

  private:
    void read();
    void poll();
    void use(const PasswordFile& file);
    void keep(int error, const char* what);
    void tell(ngx_uint_t level, const char* what) const;
    void wakeAll();

    const RedisSettings& settings_;
    CredentialsOwner& owner_;
    ngx_log_t* log_;
    std::string password_;
    std::string authentication_;
    std::uint64_t version_ = 1;
    bool isKept_ = false;  // the file was of no use when it was last read
    std::vector<PasswordWaiter*> waiters_;
    ngx_msec_t since_ = 0;  // when the first waiter began to wait, or a read without one
    BackgroundRead read_;
    bool isStale_ = false;  // a waiter came after the read had begun: the file is to be read once more
    Timer poll_;
    Timer look_;
};

}  // namespace sliding_log
