#include "progress.hpp"

#include <unistd.h>

#include <cstdio>

#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::chrono::milliseconds kBetween{100};
constexpr std::int64_t kBar = 30;  // characters

}  // namespace

// Work that ends within the first interval shows nothing.
Progress::Progress(std::string what, std::int64_t total)
    : what_(std::move(what)),
      total_(total),
      isShown_(isatty(STDERR_FILENO) == 1),
      next_(std::chrono::steady_clock::now() + kBetween) {}

Progress::~Progress() {
    if (drawn_) {
        std::fputs("\r\033[K", stderr);
    }
}

void Progress::at(std::int64_t done) {
    const auto now = std::chrono::steady_clock::now();
    if (!isShown_ || now < next_) {
        return;
    }
    next_ = now + kBetween;
    drawn_ = true;
    if (total_ <= 0) {
        std::fprintf(stderr, "\r%s %s\033[K", what_.c_str(), grouped(done).c_str());
        return;
    }
    const std::int64_t filled = done * kBar / total_;
    const std::string bar =
        std::string(static_cast<std::size_t>(filled), '#') + std::string(static_cast<std::size_t>(kBar - filled), '.');
    std::fprintf(stderr, "\r%s [%s] %3lld %%\033[K", what_.c_str(), bar.c_str(),
                 static_cast<long long>(done * 100 / total_));
}

}  // namespace sliding_log::tool
