// What is kept of one key by this node: the local form of the algorithm of its questions, and what all of them share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>

#include "limit/bucket_form.hpp"
#include "limit/counter_form.hpp"
#include "limit/log_form.hpp"
#include "limit/sampling.hpp"
#include "limit/verdict.hpp"

namespace sliding_log {

/// As LocalForm, whose functions it has, but that any question may be asked, of no entries, too. Each is of the
/// algorithm that the state was made for.
class LogState {
  public:
    /// Logs of one of them answer questions of the other.
    static bool areAlike(Algorithm left, Algorithm right) { return rowOf(left).decidesAs == rowOf(right).decidesAs; }

    /// `place`: a few bytes that are its own as long as it lives.
    LogState(const Question& question, std::uint64_t now, std::span<std::uint8_t> place)
        : algorithm_(question.algorithm), form_(begun(question, now, place)) {}

    /// False: a reload has changed the algorithm, and what is kept answers another question.
    bool suits(const Question& question) const { return areAlike(algorithm_, question.algorithm); }

    void advance(const Question& question, std::uint64_t now) {
        std::visit([&](auto& form) { form.advance(question, now); }, form_);
    }

    /// How many entries the request takes: not its cost where it is sampled.
    static std::int64_t entriesOf(const Question& question, std::string_view unique) {
        return takes(question.algorithm, Parameter::Sample) ? sampledEntries(question.cost, question.sample, unique)
                                                            : question.cost;
    }

    /// kNever where there never will be room.
    std::int64_t msUntilRoom(const Question& question, std::uint64_t now) const {
        if (question.neverHasRoom()) {
            return Verdict::kNever;
        }
        return std::visit([&](const auto& form) { return form.msUntilRoom(question, now); }, form_);
    }

    std::int64_t msUntilSlot(const Question& question, std::uint64_t now, std::int64_t wait) const {
        return std::visit([&](const auto& form) { return form.msUntilSlot(question, now, wait); }, form_);
    }

    std::int64_t remaining(const Question& question, std::uint64_t now) const {
        return std::visit([&](const auto& form) { return form.remaining(question, now); }, form_);
    }

    std::int64_t resetMs(const Question& question, std::uint64_t now) const {
        return std::visit([&](const auto& form) { return form.resetMs(question, now); }, form_);
    }

    std::size_t cellsToAdd(std::uint64_t now, std::uint64_t time, std::int64_t entries) const {
        if (entries == 0) {
            return 0;
        }
        return std::visit([&](const auto& form) { return form.cellsToAdd(now, time, entries); }, form_);
    }

    void give(Cell& cell) {
        std::visit([&](auto& form) { form.give(cell); }, form_);
    }

    void add(const Question& question, std::uint64_t time, std::int64_t entries) {
        if (entries > 0) {
            std::visit([&](auto& form) { form.add(question, time, entries); }, form_);
        }
    }

    std::int64_t entriesOfDenied(const Question& question, std::uint64_t now, std::int64_t entries) const {
        if (question.cap == 0) {
            return entries;
        }
        return std::visit([&](const auto& form) { return form.entriesOfDenied(question, now, entries); }, form_);
    }

    void addDenied(const Question& question, std::uint64_t now, std::int64_t entries) {
        std::visit([&](auto& form) { form.addDenied(question, now, entries); }, form_);
    }

    bool remove(std::uint64_t time, std::int64_t entries) {
        return entries > 0 && std::visit([&](auto& form) { return form.remove(time, entries); }, form_);
    }

    Chain takeSpare(std::uint64_t now) {
        return std::visit([&](auto& form) { return form.takeSpare(now); }, form_);
    }

    Chain takeAll() {
        return std::visit([](auto& form) { return form.takeAll(); }, form_);
    }

    /// Until when the log itself denies everything, 0 or in the past: it does not; and since when, if it does.
    std::uint64_t blockedUntil() const { return blockedUntil_; }
    std::uint64_t blockedSince() const { return blockedSince_; }
    void block(std::uint64_t now, std::int64_t ms) {
        blockedSince_ = now;
        blockedUntil_ = now + static_cast<std::uint64_t>(ms);
    }
    void unblock() { blockedUntil_ = 0; }

    std::uint64_t endsAt() const {
        return std::max(std::visit([](const auto& form) { return form.endsAt(); }, form_), blockedUntil_);
    }

  private:
    using Form = std::variant<LogForm, CounterForm, BucketForm>;

    static Form begun(const Question& question, std::uint64_t now, std::span<std::uint8_t> place) {
        switch (question.algorithm) {
            case Algorithm::Log:
            case Algorithm::Compact:
            case Algorithm::Sampled:
                return LogForm(place);
            case Algorithm::Counter:
                return CounterForm();
            case Algorithm::Bucket:
                return BucketForm(now, question.burst);
        }
        __builtin_unreachable();
    }

    std::uint64_t blockedUntil_ = 0;
    std::uint64_t blockedSince_ = 0;
    Algorithm algorithm_;
    Form form_;
};

static_assert(std::is_trivially_copyable_v<LogState> && std::is_trivially_destructible_v<LogState>);

}  // namespace sliding_log
