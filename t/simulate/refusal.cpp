#include "refusal.hpp"

#include <array>
#include <string_view>

namespace simulate {

namespace {

/// What nginx and the scripts send.
constexpr std::array<std::string_view, 7> kForbidden = {"evalsha", "sliding_log.2", "script", "zadd",
                                                        "hset",    "get",           "time"};

constexpr std::array<std::string_view, 2> kNoWrites = {
    "NOREPLICAS Not enough good replicas to write.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."};

}  // namespace

Refusal Refusal::draw(Random& random) {
    switch (random.below(6)) {
        case 0:
            return {Kind::Loading, ""};
        case 1:
            return {Kind::Busy, ""};
        case 2:
            return {Kind::NoMemory, ""};
        case 3:
            return {Kind::NoWrites, std::string(kNoWrites[random.below(kNoWrites.size())])};
        default:
            return {Kind::Forbidden, std::string(kForbidden[random.below(kForbidden.size())])};
    }
}

std::string Refusal::text() const {
    switch (kind_) {
        case Kind::Loading:
            return "LOADING";
        case Kind::Busy:
            return "BUSY";
        case Kind::NoMemory:
            return "OOM";
        case Kind::NoWrites:
            return what_.substr(0, what_.find(' '));
        case Kind::Forbidden:
            return "NOPERM for " + what_;
    }
    return {};
}

void Refusal::set(Server& server, bool refuses) const {
    switch (kind_) {
        case Kind::Loading:
            server.setLoading(refuses);
            break;
        case Kind::Busy:
            server.setBusy(refuses);
            break;
        case Kind::NoMemory:
            server.setMemory(refuses ? 1 : 0, Eviction::None);
            break;
        case Kind::NoWrites:
            server.setWriteRefusal(refuses ? what_ : "");
            break;
        case Kind::Forbidden:
            refuses ? server.forbid(what_) : server.permit(what_);
            break;
    }
}

}  // namespace simulate
