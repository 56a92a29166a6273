// What is kept of one key, by the algorithm of its questions, and what the algorithms differ in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "limit/exact_log.hpp"
#include "limit/sampling.hpp"
#include "limit/token_bucket.hpp"
#include "limit/verdict.hpp"
#include "limit/wide.hpp"
#include "limit/window_counts.hpp"

namespace sliding_log {

/// Plain data, so that it can stand in shared memory; the cells it grows into are given and taken by somebody else.
/// Times are ms of a clock that never steps back. Each question is of the algorithm that the state was made for.
class LogState {
  public:
    static bool areAlike(Algorithm left, Algorithm right) { return kindOf(left) == kindOf(right); }

    /// `place`: a few bytes that are its own as long as it lives.
    LogState(const Question& question, std::uint64_t now, std::span<std::uint8_t> place)
        : algorithm_(question.algorithm), state_(std::in_place_type<ExactLog>, place.data(), place.size()) {
        if (algorithm_ == Algorithm::Bucket) {
            state_.emplace<TokenBucket>(now, question.burst);
        } else if (algorithm_ == Algorithm::Counter) {
            state_.emplace<WindowCounts>();
        }
    }

    /// False: a reload has changed the algorithm, and what is kept answers another question.
    bool suits(const Question& question) const { return areAlike(algorithm_, question.algorithm); }

    /// Brings it to now; the first thing of every decision.
    void advance(const Question& question, std::uint64_t now) {
        const auto window = static_cast<std::uint64_t>(question.windowMs);
        const auto ahead = static_cast<std::uint64_t>(question.aheadMs);
        windowMs_ = question.windowMs;
        switch (algorithm_) {
            case Algorithm::Bucket:
                bucket().advance(now, question.limit, question.burst, question.windowMs);
                break;
            case Algorithm::Counter:
                counts().advance(now, window, ahead);
                break;
            default:
                log().prune(now, window);
                log().bringBack(now, now + ahead);
        }
    }

    /// How many entries the request takes: not its cost where it is sampled.
    std::int64_t entriesOf(const Question& question, std::string_view unique) const {
        return algorithm_ == Algorithm::Sampled ? sampledEntries(question.cost, question.sample, unique)
                                                : question.cost;
    }

    /// Until there is room for the request if nobody else comes: 0 there is, kNever there never will be.
    std::int64_t msUntilRoom(const Question& question, std::uint64_t now) const {
        if (question.neverHasRoom()) {
            return Verdict::kNever;
        }
        switch (algorithm_) {
            case Algorithm::Bucket:
                return bucket().msUntil(question.cost, question.limit, question.windowMs);
            case Algorithm::Counter:
                return counts().isAtMost(question.limit - question.cost, now)
                           ? 0
                           : since(now, counts().fallsTo(question.limit - question.cost, now));
            default: {
                const Wide over = used(question) + question.cost - question.limit;
                if (over <= 0) {
                    return 0;
                }
                const auto place = static_cast<std::size_t>(divideUp(over, weight(question))) - 1;
                return since(now, log().at(place)) + question.windowMs;
            }
        }
    }

    /// Until the first slot behind those that came before; `msUntilRoom` is more than 0.
    std::int64_t msUntilSlot(const Question& question, std::uint64_t now, std::int64_t msUntilRoom) const {
        switch (algorithm_) {
            case Algorithm::Bucket:
                return msUntilRoom;
            case Algorithm::Counter:
                return counts().latest() <= now
                           ? msUntilRoom
                           : since(now, counts().fallsTo(question.limit - question.cost, counts().latest()));
            default:
                return log().count() == 0 ? msUntilRoom : std::max(since(now, log().newest()), msUntilRoom);
        }
    }

    /// What is left of the limit.
    std::int64_t remaining(const Question& question, std::uint64_t now) const {
        switch (algorithm_) {
            case Algorithm::Bucket:
                return bucket().remaining();
            case Algorithm::Counter:
                return counts().remaining(question.limit, now);
            default:
                return static_cast<std::int64_t>(std::max<Wide>(question.limit - used(question), 0));
        }
    }

    /// Until more of the limit becomes available.
    std::int64_t resetMs(const Question& question, std::uint64_t now) const {
        switch (algorithm_) {
            case Algorithm::Bucket:
                return bucket().resetMs(question.limit, question.burst, question.windowMs);
            case Algorithm::Counter: {
                const std::int64_t most = question.limit - counts().remaining(question.limit, now) - 1;
                return counts().isEmpty() ? question.windowMs
                                          : since(now, counts().fallsTo(std::max<std::int64_t>(most, 0), now));
            }
            default:
                return log().count() == 0 ? question.windowMs : since(now, log().oldest()) + question.windowMs;
        }
    }

    /// The cells that it must be given before so many entries of that time are added.
    std::size_t cellsToAdd(std::uint64_t now, std::uint64_t time, std::int64_t entries) const {
        if (entries == 0) {
            return 0;
        }
        const auto added = static_cast<std::uint64_t>(entries);
        switch (algorithm_) {
            case Algorithm::Bucket:
                return 0;
            case Algorithm::Counter:
                return counts().cellsToAdd(time, added);
            default: {
                // one is at hand for entries ahead to be brought back
                const std::size_t wanted = log().cellsToAdd(time, added) + (time > now || isAhead(now) ? 1 : 0);
                return wanted - std::min(wanted, log().spares());
            }
        }
    }

    void give(Cell& cell) {
        if (algorithm_ == Algorithm::Counter) {
            counts().give(cell);
        } else {
            log().give(cell);
        }
    }

    /// All that it was given, with its end.
    Chain takeAll() {
        switch (algorithm_) {
            case Algorithm::Bucket:
                return {};
            case Algorithm::Counter:
                return counts().takeAll();
            default:
                log().clear();
                return log().takeSpare(0);
        }
    }

    /// What it does not need at now; to be taken after each decision.
    Chain takeSpare(std::uint64_t now) {
        switch (algorithm_) {
            case Algorithm::Bucket:
                return {};
            case Algorithm::Counter:
                return counts().takeSpare();
            default:
                return log().spares() == 0 ? Chain() : log().takeSpare(isAhead(now) ? 2 : 0);
        }
    }

    /// Logs an admitted request at that time; it has the cells that cellsToAdd() said.
    void add(const Question& question, std::uint64_t time, std::int64_t entries) {
        if (entries == 0) {
            return;
        }
        switch (algorithm_) {
            case Algorithm::Bucket:
                bucket().take(entries, TokenBucket::kLeastTokens, question.limit, question.burst, question.windowMs);
                break;
            case Algorithm::Counter:
                counts().add(time, static_cast<std::uint64_t>(entries));
                break;
            default:
                log().add(time, static_cast<std::uint64_t>(entries));
        }
    }

    /// How many of the entries that a denied attempt adds at now will stay. The oldest leave first, so reservations
    /// ahead stay before them.
    std::int64_t entriesOfDenied(const Question& question, std::uint64_t now, std::int64_t entries) const {
        if (question.cap == 0 || algorithm_ == Algorithm::Bucket || algorithm_ == Algorithm::Counter) {
            return entries;
        }
        return std::min(entries, static_cast<std::int64_t>(longestWithDenied(question) - log().countAfter(now)));
    }

    /// Logs a denied attempt at now, as far as the cap allows: so many entries as entriesOfDenied() said, with the
    /// cells that cellsToAdd() said. The oldest leave, until there are no more than the cap, or than there were: each
    /// that leaves is replaced by a newer one, so to nobody whose limit is larger the log looks emptier.
    void addDenied(const Question& question, std::uint64_t now, std::int64_t entries) {
        switch (algorithm_) {
            case Algorithm::Bucket:
                bucket().take(entries, question.cap == 0 ? TokenBucket::kLeastTokens : question.burst - question.cap,
                              question.limit, question.burst, question.windowMs);
                break;
            case Algorithm::Counter:
                counts().addUpTo(question.cap == 0 ? UINT64_MAX : static_cast<std::uint64_t>(question.cap),
                                 static_cast<std::uint64_t>(entries));
                break;
            default:
                if (question.cap > 0) {
                    log().trim(longestWithDenied(question) - static_cast<std::size_t>(entries));
                }
                log().add(now, static_cast<std::size_t>(entries));
        }
    }

    /// Takes back what add() logged; false where it has left already.
    bool remove(std::uint64_t time, std::int64_t entries) {
        if (entries == 0) {
            return false;
        }
        switch (algorithm_) {
            case Algorithm::Bucket:
                return bucket().giveBack(entries);
            case Algorithm::Counter:
                return counts().remove(time, static_cast<std::uint64_t>(entries));
            default:
                return log().remove(time, static_cast<std::size_t>(entries));
        }
    }

    /// Until when the log itself denies everything, 0 or in the past: it does not; and since when, if it does.
    std::uint64_t blockedUntil() const { return blockedUntil_; }
    std::uint64_t blockedSince() const { return blockedSince_; }
    void block(std::uint64_t now, std::int64_t ms) {
        blockedSince_ = now;
        blockedUntil_ = now + static_cast<std::uint64_t>(ms);
    }
    void unblock() { blockedUntil_ = 0; }

    /// From then on it says no more than a new one would.
    std::uint64_t endsAt() const {
        std::uint64_t end = 0;
        switch (algorithm_) {
            case Algorithm::Bucket:
                end = bucket().fullAt();
                break;
            case Algorithm::Counter:
                end = counts().endsAt();
                break;
            default:
                end = log().count() == 0 ? 0 : log().newest() + static_cast<std::uint64_t>(windowMs_);
        }
        return std::max(end, blockedUntil_);
    }

  private:
    static Algorithm kindOf(Algorithm algorithm) {
        return algorithm == Algorithm::Compact ? Algorithm::Log : algorithm;  // the same here
    }

    static std::int64_t since(std::uint64_t begin, std::uint64_t end) { return static_cast<std::int64_t>(end - begin); }

    /// How many requests an entry counts for.
    static std::int64_t weight(const Question& question) {
        return question.algorithm == Algorithm::Sampled ? question.sample : 1;
    }

    /// The cap in entries; rounded up, else a log at its cap might have room for ever.
    static std::size_t mostEntries(const Question& question) {
        return static_cast<std::size_t>(
            question.algorithm == Algorithm::Sampled ? (question.cap - 1) / question.sample + 1 : question.cap);
    }

    /// How many entries there may be when denied attempts have been added.
    std::size_t longestWithDenied(const Question& question) const {
        return std::max(mostEntries(question), log().count());
    }

    /// There are entries ahead of now.
    bool isAhead(std::uint64_t now) const { return log().count() > 0 && log().newest() > now; }

    Wide used(const Question& question) const { return static_cast<Wide>(log().count()) * weight(question); }

    ExactLog& log() { return *std::get_if<ExactLog>(&state_); }
    const ExactLog& log() const { return *std::get_if<ExactLog>(&state_); }
    WindowCounts& counts() { return *std::get_if<WindowCounts>(&state_); }
    const WindowCounts& counts() const { return *std::get_if<WindowCounts>(&state_); }
    TokenBucket& bucket() { return *std::get_if<TokenBucket>(&state_); }
    const TokenBucket& bucket() const { return *std::get_if<TokenBucket>(&state_); }

    std::int64_t windowMs_ = 0;  // as last asked
    std::uint64_t blockedUntil_ = 0;
    std::uint64_t blockedSince_ = 0;
    Algorithm algorithm_;
    std::variant<ExactLog, WindowCounts, TokenBucket> state_;
};

static_assert(std::is_trivially_copyable_v<LogState> && std::is_trivially_destructible_v<LogState>);

}  // namespace sliding_log
