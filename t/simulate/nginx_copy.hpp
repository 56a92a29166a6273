// Copies of nginx, the module linked in: each has globals of its own, as a process would.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nginx_worker.hpp"

namespace simulate {

class NginxCopy;

/// The shared object, loaded once. Its globals are those of one copy at a time.
struct LoadedNginx {
    /// Throws std::runtime_error.
    explicit LoadedNginx(const std::string& file);
    LoadedNginx(const LoadedNginx&) = delete;
    LoadedNginx& operator=(const LoadedNginx&) = delete;

    decltype(&simulateWorker) run;
    decltype(&simulateQuit) quit;
    decltype(&simulateUnlock) unlock;
    decltype(&simulateInUse) inUse;
    std::vector<std::pair<char*, std::size_t>> globals;  // where they are
    std::vector<std::string> firstValues;
    NginxCopy* resident = nullptr;  // whose values they have
};

/// One copy, which one worker uses at a time.
class NginxCopy {
  public:
    /// Its globals are as they were when nginx was loaded.
    explicit NginxCopy(std::shared_ptr<LoadedNginx> loaded) : loaded_(std::move(loaded)) { reset(); }
    ~NginxCopy();
    NginxCopy(const NginxCopy&) = delete;
    NginxCopy& operator=(const NginxCopy&) = delete;

    void reset();

    /// To be called before the worker continues: another one may have used the same memory.
    void enter();

    /// Runs a worker in the current process until that ends.
    int run(const std::string& folder, const std::string& file, int number,
            SimulatedConfiguration& configuration) const {
        return loaded_->run(folder.c_str(), file.c_str(), number, &configuration);
    }

    /// The worker gets the signal QUIT.
    void quit() {
        enter();
        loaded_->quit();
    }

    /// Opens the lock of this memory if that process holds it. May be called later than the copy is used.
    decltype(&simulateUnlock) unlock() const { return loaded_->unlock; }

    /// Looks into a zone, whose workers wait meanwhile.
    decltype(&simulateInUse) inUse() const { return loaded_->inUse; }

  private:
    std::shared_ptr<LoadedNginx> loaded_;
    std::vector<std::string> values_;  // of the globals, while another copy has its own there
};

/// Those that no worker uses at the moment, so that nginx is loaded once for each.
class NginxCopies {
  public:
    /// So many are loaded now; 0: all copies use the same memory, which takes longer to switch, and a tenth of the
    /// memory. Throws std::runtime_error.
    NginxCopies(std::string file, std::size_t count);

    std::unique_ptr<NginxCopy> take();
    void giveBack(std::unique_ptr<NginxCopy> copy);

  private:
    std::string file_;
    std::shared_ptr<LoadedNginx> shared_;  // nullptr: each copy has its own
    std::vector<std::unique_ptr<NginxCopy>> unused_;
};

}  // namespace simulate
