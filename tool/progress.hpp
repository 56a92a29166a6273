// The progress of long work: one line on standard error, if that is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace sliding_log::tool {

class Progress {
  public:
    /// `total` 0: not known; only the count is shown.
    Progress(std::string what, std::int64_t total);
    ~Progress();  // removes the line
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void at(std::int64_t done);

  private:
    std::string what_;
    std::int64_t total_;
    bool isShown_;
    bool drawn_ = false;
    std::chrono::steady_clock::time_point next_;
};

}  // namespace sliding_log::tool
