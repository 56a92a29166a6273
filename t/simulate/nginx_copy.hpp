// Copies of nginx, the module linked in: each has globals of its own, as a process would.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nginx_worker.hpp"

namespace simulate {

/// One copy, which one worker uses at a time.
class NginxCopy {
  public:
    /// The shared object is loaded once more. Throws std::runtime_error.
    explicit NginxCopy(const std::string& file);
    NginxCopy(const NginxCopy&) = delete;
    NginxCopy& operator=(const NginxCopy&) = delete;

    /// Its globals are as they were when it was loaded.
    void reset();

    /// Runs a worker in the current process until that ends.
    int run(const std::string& folder, const std::string& file, int number,
            SimulatedConfiguration& configuration) const {
        return run_(folder.c_str(), file.c_str(), number, &configuration);
    }

    /// The worker gets the signal QUIT.
    void quit() const { quit_(); }

    /// Opens the lock of this memory if that process holds it. May be called later than the copy is used.
    decltype(&simulateUnlock) unlock() const { return unlock_; }

  private:
    decltype(&simulateWorker) run_;
    decltype(&simulateQuit) quit_;
    decltype(&simulateUnlock) unlock_;
    std::vector<std::pair<char*, std::string>> globals_;  // where they are, and their first values
};

/// Those that no worker uses at the moment, so that they are loaded once.
class NginxCopies {
  public:
    /// So many are loaded now. Throws std::runtime_error.
    NginxCopies(std::string file, std::size_t count);

    std::unique_ptr<NginxCopy> take();
    void giveBack(std::unique_ptr<NginxCopy> copy) { unused_.push_back(std::move(copy)); }

  private:
    std::string file_;
    std::vector<std::unique_ptr<NginxCopy>> unused_;
};

}  // namespace simulate
