#include "node/isolated_logs.hpp"

#include <algorithm>

#include "node/signature.hpp"

namespace sliding_log {

namespace {

constexpr std::uint64_t kLastsMs = 1000;

enum class Kind : std::uint64_t { Name, Log, Slot };

std::uint64_t subjectOf(Kind kind, std::uint32_t which) {
    return static_cast<std::uint64_t>(kind) << 32 | which;
}

}  // namespace

/// The prefix and the name of the limit, up to the value.
IsolatedLogs::Subject IsolatedLogs::ofName(std::string_view key) {
    return subjectOf(Kind::Name, Signature::hashOfLog(key.substr(0, key.rfind(":{"))));
}

IsolatedLogs::Subject IsolatedLogs::ofLog(std::string_view key) {
    return subjectOf(Kind::Log, Signature::hashOfLog(key));
}

IsolatedLogs::Subject IsolatedLogs::ofSlot(std::uint16_t hashSlot) {
    return subjectOf(Kind::Slot, hashSlot);
}

void IsolatedLogs::add(Subject subject, std::uint64_t nowMs) {
    latest_ = nowMs + kLastsMs;
    const std::span all(isolatedLogs_);
    const auto known = std::ranges::find(all, subject, &Loner::subject);
    Loner& loner = known != all.end() ? *known : isolatedLogs_[next_++ % isolatedLogs_.size()];
    loner = {subject, latest_};
}

bool IsolatedLogs::has(Subject subject, std::uint64_t nowMs) const {
    return std::ranges::any_of(isolatedLogs_,
                               [&](const Loner& each) { return each.subject == subject && nowMs < each.until; });
}

bool IsolatedLogs::areApart(std::span<const Check> checks, std::uint64_t nowMs) const {
    if (isEmpty(nowMs)) {
        return false;
    }
    return areAlone(checks, nowMs) ||
           std::ranges::any_of(checks, [&](const Check& each) { return has(ofLog(each.key), nowMs); });
}

bool IsolatedLogs::areAlone(std::span<const Check> checks, std::uint64_t nowMs) const {
    if (isEmpty(nowMs)) {
        return false;
    }
    return has(ofSlot(checks.front().hashSlot), nowMs) ||
           std::ranges::any_of(checks, [&](const Check& each) { return has(ofName(each.key), nowMs); });
}

}  // namespace sliding_log
