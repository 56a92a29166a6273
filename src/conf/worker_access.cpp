#include "conf/worker_access.hpp"

#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "redis/password_file.hpp"

namespace sliding_log {

namespace {

/// Makes this process, which is root, what nginx makes its workers, until end() is called.
class AsWorker {
  public:
    explicit AsWorker(const ngx_core_conf_t& core)
        : groups_(static_cast<std::size_t>(std::max(getgroups(0, nullptr), 0))) {
        const bool isKnown = getgroups(static_cast<int>(groups_.size()), groups_.data()) >= 0;
        isChanged_ = isKnown && initgroups(core.username, core.group) == 0;
        isWorker_ = isChanged_ && setegid(core.group) == 0 && seteuid(core.user) == 0;
    }

    bool isWorker() const { return isWorker_; }

    /// False if this fails. The kernel has switched core dumps off, too.
    bool end() const {
        if (!isChanged_) {
            return true;  // this root may not become others
        }
        const bool isRoot = seteuid(0) == 0 && setegid(group_) == 0 && setgroups(groups_.size(), groups_.data()) == 0;
        prctl(PR_SET_DUMPABLE, dumpable_ == 1 ? 1 : 0, 0, 0, 0);
        return isRoot;
    }

  private:
    const gid_t group_ = getegid();
    const int dumpable_ = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    std::vector<gid_t> groups_;
    bool isChanged_;
    bool isWorker_;
};

}  // namespace

bool warnOfUnreadablePasswords(ngx_cycle_t* cycle, const MainSettings& main) {
    const auto& core = *reinterpret_cast<const ngx_core_conf_t*>(ngx_get_conf(cycle->conf_ctx, ngx_core_module));
    for (const RedisSettings* store : main.allStores()) {
        if (store->passwordFile.len == 0 || geteuid() != 0 || core.user == 0 || core.master == 0) {
            continue;  // whoever reads it later has just read it
        }
        PasswordFile file;
        const AsWorker worker(core);
        if (worker.isWorker()) {
            file.read(reinterpret_cast<const char*>(store->passwordFile.data));
        }
        if (!worker.end()) {
            ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_errno, "sliding_log: cannot become root again");
            return false;
        }
        if (file.error() != 0) {
            ngx_log_error(NGX_LOG_WARN, cycle->log, file.error(),
                          "\"password_file\" \"%V\" cannot be read by the user \"%s\" of the workers, so that another "
                          "password in it takes a reload",
                          &store->passwordFile, core.username);
        }
    }
    return true;
}

}  // namespace sliding_log
