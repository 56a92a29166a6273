#include "store/loners.hpp"

#include <algorithm>

#include "store/signature.hpp"

namespace sliding_log {

namespace {

constexpr std::uint64_t kLastsMs = 1000;

enum class Kind : std::uint64_t { Name, Log, Slot };

std::uint64_t subjectOf(Kind kind, std::uint32_t which) {
    return static_cast<std::uint64_t>(kind) << 32 | which;
}

}  // namespace

/// The prefix and the name of the limit, up to the value.
Loners::Subject Loners::ofName(std::string_view key) {
    return subjectOf(Kind::Name, Signature::hashOfLog(key.substr(0, key.rfind(":{"))));
}

Loners::Subject Loners::ofLog(std::string_view key) {
    return subjectOf(Kind::Log, Signature::hashOfLog(key));
}

Loners::Subject Loners::ofSlot(std::uint16_t slot) {
    return subjectOf(Kind::Slot, slot);
}

void Loners::add(Subject subject, std::uint64_t nowMs) {
    latest_ = nowMs + kLastsMs;
    const std::span all(loners_);
    const auto known = std::ranges::find(all, subject, &Loner::subject);
    Loner& loner = known != all.end() ? *known : loners_[next_++ % loners_.size()];
    loner = {subject, latest_};
}

bool Loners::has(Subject subject, std::uint64_t nowMs) const {
    return std::ranges::any_of(loners_,
                               [&](const Loner& each) { return each.subject == subject && nowMs < each.until; });
}

bool Loners::areApart(std::span<const Question> questions, std::uint64_t nowMs) const {
    return areAlone(questions, nowMs) ||
           std::ranges::any_of(questions, [&](const Question& each) { return has(ofLog(each.key), nowMs); });
}

bool Loners::areAlone(std::span<const Question> questions, std::uint64_t nowMs) const {
    return has(ofSlot(questions.front().slot), nowMs) ||
           std::ranges::any_of(questions, [&](const Question& each) { return has(ofName(each.key), nowMs); });
}

}  // namespace sliding_log
