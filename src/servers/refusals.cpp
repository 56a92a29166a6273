#include "servers/refusals.hpp"

namespace sliding_log {

namespace {

/// Between two requests that are still asked, in ms.
constexpr std::uint64_t kAskAgainMin = 50;
constexpr std::uint64_t kAskAgainMax = 250;

/// Keys are assumed to be together again this time after their refusal, in ms.
constexpr std::uint64_t kKeysForgottenAfter = 10'000;

}  // namespace

Refusals::Subject Refusals::subjectOf(const void* server, std::uint16_t hashSlot, std::string_view answer) {
    if (answer.starts_with("TRYAGAIN")) {
        return {server, Kind::Keys, hashSlot};
    }
    const bool isOfServer =
        answer.starts_with("CLUSTERDOWN") && answer.find("lot not served") == std::string_view::npos;
    return isOfServer ? Subject{server, Kind::Server, 0} : Subject{server, Kind::Slot, hashSlot};
}

void Refusals::add(const void* server, std::uint16_t hashSlot, std::string_view answer, std::uint64_t nowMs) {
    const Refusal fresh{nowMs, nowMs + kAskAgainMin, Backoff(kAskAgainMin, kAskAgainMax)};
    lasting_.try_emplace(subjectOf(server, hashSlot, answer), fresh).first->second.refusedAt = nowMs;
}

bool Refusals::isLasting(const void* server, std::uint16_t hashSlot, std::string_view answer, std::uint64_t nowMs) {
    if (isEmpty()) {
        return false;
    }
    const auto found = lasting_.find(subjectOf(server, hashSlot, answer));
    if (found == lasting_.end()) {
        return false;
    }
    if (found->first.kind == Kind::Keys && nowMs - found->second.refusedAt >= kKeysForgottenAfter) {
        lasting_.erase(found);
        return false;
    }
    found->second.refusedAt = nowMs;
    return true;
}

bool Refusals::turnsAway(const void* server, std::uint16_t hashSlot, std::uint64_t nowMs, std::uint64_t random) {
    return turnsAway(Subject{server, Kind::Server, 0}, nowMs, random) ||
           turnsAway(Subject{server, Kind::Slot, hashSlot}, nowMs, random);
}

bool Refusals::turnsAway(const Subject& subject, std::uint64_t nowMs, std::uint64_t random) {
    const auto found = lasting_.find(subject);
    if (found == lasting_.end()) {
        return false;
    }
    Refusal& refusal = found->second;
    if (nowMs < refusal.askAt) {
        return true;
    }
    refusal.askAt = nowMs + refusal.backoff.next(random);
    return false;
}

void Refusals::served(const void* server, std::uint16_t hashSlot, std::uint64_t nowMs) {
    lasting_.erase({server, Kind::Server, 0});
    lasting_.erase({server, Kind::Slot, hashSlot});
    const auto keys = lasting_.find({server, Kind::Keys, hashSlot});
    if (keys != lasting_.end() && nowMs - keys->second.refusedAt >= kKeysForgottenAfter) {
        lasting_.erase(keys);
    }
}

void Refusals::erase(const void* server) {
    std::erase_if(lasting_, [server](const auto& each) { return each.first.server == server; });
}

}  // namespace sliding_log
