#include "refusal.hpp"

#include <array>

namespace simulate {

namespace {

/// What nginx and the scripts send.
const std::array<std::string, 7> kForbidden = {"evalsha", "sliding_log.2", "script", "zadd", "hset", "get", "time"};

const std::array<std::string, 2> kNoWrites = {
    std::string(kNoReplicas),
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."};

}  // namespace

Refusal drawRefusal(Random& random) {
    switch (random.below(6)) {
        case 0:
            return {"LOADING", [](Server& server, bool begins) { server.setLoading(begins); }};
        case 1:
            return {"BUSY", [](Server& server, bool begins) { server.setBusy(begins); }};
        case 2:
            return {"OOM", [](Server& server, bool begins) { server.setMemory(begins ? 1 : 0, Eviction::None); }};
        case 3: {
            const std::string& error = kNoWrites[random.below(kNoWrites.size())];
            return {error.substr(0, error.find(' ')),
                    [&error](Server& server, bool begins) { server.setWriteRefusal(begins ? error : ""); }};
        }
        default: {
            const std::string& command = kForbidden[random.below(kForbidden.size())];
            return {"NOPERM for " + command, [&command](Server& server, bool begins) {
                        begins ? server.forbid(command) : server.permit(command);
                    }};
        }
    }
}

}  // namespace simulate
