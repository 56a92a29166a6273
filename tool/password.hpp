// The password of a login: a constant, or that of a file, which is read again while the tool runs.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace sliding_log::tool {

class Password {
  public:
    Password() = default;
    explicit Password(std::string constant) : text_(std::move(constant)) {}

    /// The writer of a pipe is waited for, and the pipe is read once. Throws UsageError, which names the option, if the
    /// file has none.
    static Password ofFile(std::string path, std::string_view option);

    /// As the file has it now. If it cannot be read, or has none, the last one stays, and standard error tells it once.
    const std::string& renew();

    /// The same, at most once a minute.
    const std::string& renewAtTimes();

    bool isEmpty() const { return text_.empty(); }

  private:
    using Clock = std::chrono::steady_clock;

    std::string text_;
    std::string path_;  // empty: a constant, or a pipe
    bool isKept_ = false;
    Clock::time_point readAt_;
};

}  // namespace sliding_log::tool
