#include "redis/background_read.hpp"

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <utility>

namespace sliding_log {

namespace {

constexpr std::size_t kStackBytes = 256UL * 1024;

}  // namespace

struct BackgroundRead::Job {
    const char* path;
    PasswordFile file{};
    std::atomic<bool> done = false;
    std::atomic<int> owners = 2;
};

BackgroundRead::~BackgroundRead() {
    if (job_ != nullptr) {
        release(job_);
    }
}

int BackgroundRead::begin(const char* path) {
    if (job_ != nullptr) {
        return 0;
    }
    auto* job = new Job{path};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const int error = pthread_create(&thread, &attributes, run, job);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        delete job;
        return error;
    }
    job_ = job;
    return 0;
}

bool BackgroundRead::take(PasswordFile& into) {
    if (job_ == nullptr || !job_->done.load(std::memory_order_acquire)) {
        return false;
    }
    into = job_->file;
    release(std::exchange(job_, nullptr));
    return true;
}

void* BackgroundRead::run(void* shared) {
    Job* job = static_cast<Job*>(shared);
    job->file.read(job->path);
    job->done.store(true, std::memory_order_release);
    release(job);
    return nullptr;
}

void BackgroundRead::release(Job* job) {
    if (job->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        delete job;
    }
}

}  // namespace sliding_log
