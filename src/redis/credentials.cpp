#include "redis/credentials.hpp"

#include <utility>

#include "redis/handshake.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

constexpr ngx_msec_t kLookEveryMs = 60'000;

/// The end of a read is looked for: a thread of nginx's pool could report it, but needs an nginx with threads, and a
/// pool of 32 of them in each worker.
constexpr ngx_msec_t kPollMs = 1;
constexpr ngx_msec_t kPollSlowlyMs = 1000;

}  // namespace

Credentials::Credentials(const RedisSettings& settings, CredentialsOwner& owner, ngx_log_t* log)
    : settings_(settings),
      owner_(owner),
      log_(log),
      password_(view(settings.password)),
      authentication_(sliding_log::authentication(view(settings.username), password_)),
      poll_(
          this, [](void* self) { static_cast<Credentials*>(self)->poll(); }, Timer::Kind::Chore, log),
      look_(
          this, [](void* self) { static_cast<Credentials*>(self)->read(); }, Timer::Kind::Chore, log) {}

void Credentials::refresh(PasswordWaiter& waiter) {
    if (settings_.passwordFile.len == 0) {
        waiter.passwordKnown();
        return;
    }
    waiters_.push_back(&waiter);
    read();
}

void Credentials::forget(PasswordWaiter& waiter) {
    std::erase(waiters_, &waiter);
}

void Credentials::read() {
    look_.set(kLookEveryMs);
    since_ = waiters_.size() > 1 ? since_ : nowMs();
    poll_.set(kPollMs);
    if (read_.isUnderWay()) {
        isStale_ = true;
    } else if (const int error = read_.begin(reinterpret_cast<const char*>(settings_.passwordFile.data)); error != 0) {
        poll_.cancel();
        keep(error, "cannot be read");
        wakeAll();
    }
}

void Credentials::poll() {
    PasswordFile file;
    if (read_.take(file)) {
        use(file);
        if (std::exchange(isStale_, false)) {
            read();
            return;
        }
        wakeAll();
        owner_.passwordRead();
    } else if (nowMs() - since_ < settings_.connectTimeout) {
        poll_.set(kPollMs);
    } else {
        poll_.set(kPollSlowlyMs);
        if (!waiters_.empty()) {
            keep(0, "is not read in time");
            wakeAll();
        }
    }
}

void Credentials::use(const PasswordFile& file) {
    const std::string_view password = file.password();
    if (password.empty()) {
        keep(file.error(), file.error() != 0 ? "cannot be read" : "has no password in its first line");
        return;
    }
    if (std::exchange(isKept_, false)) {
        tell(NGX_LOG_ERR, "is read again");
    }
    if (password != password_) {
        password_ = password;
        authentication_ = sliding_log::authentication(view(settings_.username), password_);
        version_++;
        tell(NGX_LOG_NOTICE, "has another password");
    }
}

/// The last password stays. All workers read the same file, so one of them tells it, once.
void Credentials::keep(int error, const char* what) {
    if (!std::exchange(isKept_, true) && workerNumber() == 0) {
        ngx_log_error(NGX_LOG_ERR, log_, error,
                      "sliding_log_redis \"%V\": password_file \"%V\" %s, the last password stays", &settings_.name,
                      &settings_.passwordFile, what);
    }
}

void Credentials::tell(ngx_uint_t level, const char* what) const {
    if (workerNumber() == 0) {
        ngx_log_error(level, log_, 0, "sliding_log_redis \"%V\": password_file \"%V\" %s", &settings_.name,
                      &settings_.passwordFile, what);
    }
}

void Credentials::wakeAll() {
    while (!waiters_.empty()) {
        PasswordWaiter* waiter = waiters_.back();
        waiters_.pop_back();
        waiter->passwordKnown();
    }
}

}  // namespace sliding_log
