// The log of one key in this node: the local form of its algorithm, and what all algorithms share.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>

#include "limit/check.hpp"
#include "limit/sampling.hpp"
#include "local/blocks.hpp"
#include "local/bucket_form.hpp"
#include "local/counter_form.hpp"
#include "local/log_form.hpp"
#include "local/quota_form.hpp"

namespace sliding_log {

/// Has the functions of LocalForm, with fewer conditions: any check may be asked, and entries may be 0. The algorithms
/// of checks must be like the algorithm that the state was created with.
class LogState {
  public:
    /// True if logs of one algorithm can decide checks of the other.
    static bool areAlike(Algorithm left, Algorithm right) { return rowOf(left).decidesAs == rowOf(right).decidesAs; }

    /// The bytes must live as long as the state, which keeps its first entries there.
    LogState(const Check& check, std::uint64_t now, std::span<std::uint8_t> spare)
        : algorithm_(check.algorithm), form_(begun(check, now, spare)) {}

    /// False if a reload has changed the algorithm: the log cannot decide this check.
    bool suits(const Check& check) const { return areAlike(algorithm_, check.algorithm); }

    void advance(const Check& check, std::uint64_t now) {
        std::visit([&](auto& form) { form.advance(check, now); }, form_);
    }

    /// The number of entries that the request adds: its cost, unless it is sampled.
    static std::int64_t entriesOf(const Check& check, std::string_view unique) {
        return takes(check.algorithm, Parameter::Sample) ? sampledEntries(check.cost, check.sample, unique)
                                                         : check.cost;
    }

    /// kNever if there will never be room.
    std::int64_t msUntilRoom(const Check& check, std::uint64_t now) const {
        if (check.neverHasRoom()) {
            return Verdict::kNever;
        }
        return std::visit([&](const auto& form) { return form.msUntilRoom(check, now); }, form_);
    }

    std::int64_t msUntilReservation(const Check& check, std::uint64_t now, std::int64_t wait) const {
        return std::visit([&](const auto& form) { return form.msUntilReservation(check, now, wait); }, form_);
    }

    std::int64_t remaining(const Check& check, std::uint64_t now) const {
        return std::visit([&](const auto& form) { return form.remaining(check, now); }, form_);
    }

    std::int64_t resetMs(const Check& check, std::uint64_t now) const {
        return std::visit([&](const auto& form) { return form.resetMs(check, now); }, form_);
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

    void add(const Check& check, std::uint64_t time, std::int64_t entries) {
        if (entries > 0) {
            std::visit([&](auto& form) { form.add(check, time, entries); }, form_);
        }
    }

    std::int64_t entriesOfDenied(const Check& check, std::uint64_t now, std::int64_t entries) const {
        if (check.cap == 0) {
            return entries;
        }
        return std::visit([&](const auto& form) { return form.entriesOfDenied(check, now, entries); }, form_);
    }

    void addDenied(const Check& check, std::uint64_t now, std::int64_t entries) {
        std::visit([&](auto& form) { form.addDenied(check, now, entries); }, form_);
    }

    bool remove(std::uint64_t time, std::int64_t entries) {
        return entries > 0 && std::visit([&](auto& form) { return form.remove(time, entries); }, form_);
    }

    std::uint64_t latest(std::uint64_t now) const {
        return std::visit([&](const auto& form) { return form.latest(now); }, form_);
    }

    void owe(const Check& check, std::uint64_t time, std::int64_t entries) {
        std::visit([&](auto& form) { form.owe(check, time, entries); }, form_);
    }

    Chain takeSpare(std::uint64_t now) {
        return std::visit([&](auto& form) { return form.takeSpare(now); }, form_);
    }

    Chain takeAll() {
        return std::visit([](auto& form) { return form.takeAll(); }, form_);
    }

    /// To be called before and after it is changed, by whoever has the lock. A process that is killed in between leaves
    /// a state that must not be used any more: wasLeft() is true for the next one that gets the lock.
    void beginChange() {
        isChanging_ = true;
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    void endChange() {
        std::atomic_signal_fence(std::memory_order_seq_cst);
        isChanging_ = false;
    }
    bool wasLeft() const { return isChanging_; }

    Blocks& blocks() { return blocks_; }
    const Blocks& blocks() const { return blocks_; }

    std::uint64_t endsAt() const {
        const std::uint64_t end = std::visit([](const auto& form) { return form.endsAt(); }, form_);
        return std::max(end, blocks_.endsAt());
    }

  private:
    using Form = std::variant<LogForm, CounterForm, BucketForm, QuotaForm>;

    static Form begun(const Check& check, std::uint64_t now, std::span<std::uint8_t> spare) {
        switch (check.algorithm) {
            case Algorithm::Log:
            case Algorithm::Compact:
            case Algorithm::Sampled:
            case Algorithm::Inflight:
                return LogForm(spare);
            case Algorithm::Counter:
                return CounterForm();
            case Algorithm::Bucket:
                return BucketForm(now, check.burst);
            case Algorithm::Quota:
                return QuotaForm();
        }
        __builtin_unreachable();
    }

    Blocks blocks_;
    Algorithm algorithm_;
    bool isChanging_ = false;
    Form form_;
};

static_assert(std::is_trivially_copyable_v<LogState> && std::is_trivially_destructible_v<LogState>);

}  // namespace sliding_log
