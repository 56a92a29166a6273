// The frame of all algorithms, as lua/decide.lua: a request is admitted if every one of its logs has room. The head of
// that file is the contract. Numbers are doubles, as Lua's are, so that both round alike.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "block_memory.hpp"
#include "limit/permit_life.hpp"
#include "log.hpp"
#include "override.hpp"
#include "redis.hpp"

namespace sliding_log::native {

inline constexpr Command kPttl{.name = "PTTL"};

/// How an algorithm keeps a log. Functions throw an Error where a script raises one.
///   using Log             the fields of all algorithms, and its own
///   kMostEntries          the maximum number of entries of a request
///   read(log)             prunes the log, and sets used and frees
///   add(log, requests, at, denied)   `at`: ms, or nullptr for now. An error if there is no memory, else empty
///   roomAt(log, missing)  the time when so many more units will be available
///   newest(log)           a time that no reservation is later than
///   block(log, length, until), unblock(log)
///   takeBack(log, names, logged, taken, isBlocked)   true if entries were removed; sets whether the log is blocked
///   owe(log, more, logged, taken, ended)   true if so many entries were added; of algorithms with settle=
///   fits(log, requests, room)   how many requests fit, if the number of their entries is not their cost
///   latest(log)           a time that no decision was later than
template <typename Form>
class Frame {
  public:
    Frame(Redis& redis, Clock& clock, const Arguments& arguments)
        : redis_(redis), clock_(clock), arguments_(arguments), form_(redis, clock, arguments), called_(clock.now) {}

    void reply() {
        if (arguments_.isTakeBack()) {
            replyToTakeBack();
            return;
        }
        api::ReplyWithArray(redis_.context(), static_cast<long>(arguments_.batches().size()));
        for (const AskedBatch& batch : arguments_.batches()) {
            replyTo(batch);
        }
    }

    /// The reply of one batch.
    void replyTo(const AskedBatch& batch) {
        try {
            begin(batch);
            decide(batch);
            api::ReplyWithArray(redis_.context(), static_cast<long>(numbers_.size()));
            for (double number : numbers_) {
                api::ReplyWithLongLong(redis_.context(), integerOf(number));
            }
        } catch (const Error& error) {
            api::ReplyWithError(redis_.context(), error.text.c_str());
        } catch (const std::exception&) {  // of the standard library: a corrupt log has an impossible length
            api::ReplyWithError(redis_.context(), kUnreadable);
        }
    }

  private:
    using Log = typename Form::Log;

    void begin(const AskedBatch& batch) {
        if (logs_.size() < batch.logs) {
            logs_.resize(batch.logs);
        }
        const AskedLog* refused = nullptr;
        for (std::size_t i = 0; i < batch.logs; i++) {
            const AskedLog& asked = arguments_.logs()[batch.firstLog + i];
            Log& log = logs_[i];
            static_cast<Settings&>(log) = asked.settings;
            log.key = asked.key;
            log.ids = asked.ids;
            log.cap = std::ceil(log.cap / log.sample);
            log.isBlocked = log.changed = false;
            log.blockLength.reset();
            log.said = Override();
            if (refused == nullptr && std::max(log.cost, log.settle) / log.sample > Form::kMostEntries) {
                refused = &asked;
            }
        }
        if (refused != nullptr) {
            throw Error{"ERR no log of this algorithm can keep a request of " + std::string(refused->settings.options)};
        }
    }

    /// Sets now to the time of the call, or to `floor`, that of a later decision, unless that is impossible.
    void moveNow(double floor) {
        clock_.now = floor > called_ && floor <= kLatestTime ? static_cast<double>(integerOf(floor)) : called_;
    }

    void decide(const AskedBatch& batch) {
        const std::span<Log> logs(logs_.data(), batch.logs);
        const bool hasOverrides = std::ranges::any_of(logs, &Settings::hasOverride);
        if (hasOverrides) {
            obeyRecords(logs, batch);
        }
        if (!clock_.isOwn) {
            double floor = 0;
            for (Log& log : logs) {
                floor = std::max(floor, log.said.decides() ? 0 : form_.latest(log));
            }
            moveNow(floor);
        }
        const auto requests = static_cast<double>(batch.requests);
        double admitted = requests;
        bool hasExtras = std::ranges::any_of(logs, &Settings::hasOptions);
        for (Log& log : logs) {
            const Found found = log.said.decides() ? Found() : form_.read(log);
            if (found.error != nullptr) {
                throw Error{found.error};
            }
            if (found.isBlocked) {
                noteBlock(log, false);
                hasExtras = true;
            }
            const double fits = log.hasOptions || log.isBlocked ? fitting(log, batch) : log.capacity() - log.used;
            if (fits < admitted) {
                admitted = fits > 0 ? fits : 0;
            }
        }
        for (Log& log : logs) {
            if (admitted > 0 || log.changed) {
                add(log, {.names = batch.names, .from = 1, .to = admitted}, nullptr);
            }
        }
        held_.clear();
        permits_.clear();
        if (hasExtras && admitted < requests) {
            hold(logs, batch, admitted);
        } else if (hasExtras) {
            givePermits(logs, batch);
        }
        numbers_.assign({admitted, clock_.now});
        for (Log& log : logs) {
            const double room = log.capacity() - log.used;
            const double reset = log.hasFrees ? log.frees - clock_.now : log.window;
            double retry = 0;
            if (admitted < requests && hasExtras) {
                retry = wait(log);
            } else if (admitted < requests && room < 1) {
                retry =
                    log.limit < 1 ? -1 : std::max(room == 0 ? reset : form_.roomAt(log, 1 - room) - clock_.now, 1.0);
            }
            if (log.said.decides()) {
                const std::vector<double> numbers = numbersUnderRecord(log, clock_.now);
                numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
            } else {
                numbers_.insert(numbers_.end(), {room > 0 ? room : 0, reset, retry});
            }
        }
        for (std::size_t i = 0; hasOverrides && i < logs.size(); i++) {
            numbers_.insert(numbers_.end(),
                            {static_cast<double>(logs[i].said.said()), static_cast<double>(logs[i].said.untilMs)});
        }
        numbers_.insert(numbers_.end(), held_.begin(), held_.end());
        numbers_.insert(numbers_.end(), permits_.begin(), permits_.end());
    }

    void obeyRecords(std::span<Log> logs, const AskedBatch& batch) {
        for (std::size_t i = 0; i < logs.size(); i++) {
            if (logs[i].hasOverride) {
                const std::size_t record = arguments_.logs()[batch.firstLog + i].record;
                const std::string_view told = logs[i].isTold ? arguments_.text(record) : std::string_view();
                obeyRecord(redis_, logs[i], logs[i].isTold ? &told : nullptr, called_);
            }
        }
    }

    void add(Log& log, const Requests& requests, const double* at) {
        if (log.said.decides()) {
            return;
        }
        checked(form_.add(log, requests, at, false));  // without memory the first log already refuses
    }

    static void checked(const std::string& error) {
        if (!error.empty()) {
            throw Error{error};
        }
    }

    /// For a log that was blocked when it was read, or, if the block `begins`, is blocked from now on: corrects the end
    /// of the block if the clock has stepped back, and has the log live until then. With a caller's clock, the time to
    /// live shows how long the log has been blocked, so it is set only when a block begins.
    void noteBlock(Log& log, bool begins) {
        double length = log.blockLength.value_or(-1);
        if (!(length >= 1 && length <= kLongestBlock && log.blockedUntil > clock_.now)) {
            throw Error{"WRONGTYPE not a log: it is blocked for a time that cannot be"};
        }
        log.blockedUntil = std::ceil(log.blockedUntil);
        length = std::floor(length);
        log.blockLength = length;
        if (log.blockedUntil > clock_.now + length) {
            log.blockedUntil = clock_.now + length;
            form_.block(log, length, log.blockedUntil);
        }
        log.ttl = std::max(log.ttl, static_cast<double>(integerOf(log.blockedUntil - clock_.now)));
        if ((clock_.isOwn || begins) && redis_.call(kPttl, log.key, {}).integer() < log.ttl) {
            redis_.call(kPexpire, log.key, {textOf(log.ttl)});
        }
    }

    /// The number of requests that have room now; these are the first ones.
    double fitting(Log& log, const AskedBatch& batch) {
        const double room = log.capacity() - log.used;
        if (log.isBlocked || log.neverHasRoom() || room < log.cost) {
            return 0;
        }
        const auto requests = static_cast<double>(batch.requests);
        if constexpr (requires(Requests asked) { form_.fits(log, asked, room); }) {
            return form_.fits(log, {.names = batch.names, .from = 1, .to = requests}, room);
        }
        return log.cost == 0 ? requests : std::floor(room / log.cost);
    }

    /// The time until the log has room (ms).
    double wait(Log& log) {
        if (log.neverHasRoom()) {
            return -1;
        }
        const double missing = log.used + log.cost - log.capacity();
        // 1: very large numbers are rounded
        const double wait = missing > 0 ? std::max(form_.roomAt(log, missing) - clock_.now, 1.0) : 0;
        return log.isBlocked ? std::max(wait, log.blockedUntil - clock_.now) : wait;
    }

    /// The time at which the log admits one more request; false if that is not in time.
    bool reservation(Log& log, double& at) {
        const double missing = log.used + log.cost - log.capacity();
        if (log.isBlocked || log.neverHasRoom()) {
            return false;
        }
        if (missing <= 0) {
            at = clock_.now;
            return true;
        }
        if (log.delay == 0) {
            return false;
        }
        at = form_.newest(log);
        at = std::max(at, form_.roomAt(log, missing));
        return at - clock_.now <= log.delay;
    }

    /// Decides the requests that do not fit now, and adds the number of those that get a reservation to `admitted`.
    void hold(std::span<Log> logs, const AskedBatch& batch, double& admitted) {
        while (admitted < static_cast<double>(batch.requests)) {
            double at = clock_.now;
            bool isDenied = false;
            hasReservation_.assign(logs.size(), true);
            for (std::size_t i = 0; i < logs.size(); i++) {
                double its = 0;
                if (reservation(logs[i], its)) {
                    at = std::max(at, its);
                } else {
                    hasReservation_[i] = false;
                    isDenied = true;
                }
            }
            if (isDenied) {
                deny(logs, batch, admitted + 1);
                return;
            }
            admitted++;
            for (Log& log : logs) {
                add(log, {.names = batch.names, .from = admitted, .to = admitted}, &at);
            }
            held_.push_back(at - clock_.now);
        }
    }

    /// The requests from `from` on are denied, by the logs that have no reservation for them.
    void deny(std::span<Log> logs, const AskedBatch& batch, double from) {
        const auto requests = static_cast<double>(batch.requests);
        for (std::size_t i = 0; i < logs.size(); i++) {
            Log& log = logs[i];
            if (log.block > 0 && !hasReservation_[i] && !log.isBlocked && log.limit > 0) {
                beginBlock(log);
            }
            if (log.countsAll && !log.said.decides()) {
                double first = from;
                if (log.cap > 0 && log.cost > 0 && log.sample == 1) {
                    const double longest = std::max(log.cap, log.used);
                    first =
                        std::max(from, requests - std::ceil(longest / log.cost) + 1);  // cap would remove the others
                }
                checked(form_.add(log, {.names = batch.names, .from = first, .to = requests}, nullptr, true));
            }
        }
    }

    void beginBlock(Log& log) {
        const std::optional<BlockMemory::Blocks> blocks =
            log.times.empty() ? std::nullopt : BlockMemory(redis_, clock_).begin(log);
        const double length = blocks ? blocks->at(1) : log.block;
        log.isBlocked = true;
        log.blockedUntil = clock_.now + length;
        log.blockLength = length;
        form_.block(log, length, log.blockedUntil);
        if (blocks) {
            BlockMemory(redis_, clock_).write(log, *blocks, 2 * length);
        }
        noteBlock(log, true);
    }

    /// To be called when all requests were admitted. Sets the number of permits of each log: the same one for all logs
    /// with the option, and 0 for others. There are none while an override is in force.
    void givePermits(std::span<Log> logs, const AskedBatch& batch) {
        if (std::ranges::none_of(logs, [](const Log& log) { return log.permits > 0 && log.cost > 0; })) {
            return;
        }
        double permits = std::numeric_limits<double>::infinity();
        for (const Log& log : logs) {
            if (log.permits > 0 && log.cost > 0) {
                const double room =
                    std::floor((log.capacity() - log.used + log.held * log.cost) / (10 * log.cost)) - log.held;
                permits = log.said.isInForce() || log.isBlocked
                              ? 0
                              : std::min({permits, log.permits, room, std::floor(Form::kMostEntries / log.cost)});
            }
        }
        const std::string name = std::string(arguments_.text(batch.names)) + "~p";
        for (Log& log : logs) {
            bool isGiven = false;
            if constexpr (requires { form_.permit(log, name, permits, 0.0); }) {
                const double life = static_cast<double>(permitLifeMs(integerOf(log.window)));
                isGiven = permits > 0 && log.permits > 0 && form_.permit(log, name, permits, clock_.now + life);
            }
            permits_.push_back(isGiven ? permits : 0);
        }
    }

    // ---- taking back

    /// The reply to a take-back: of one request, or an array of several.
    void replyToTakeBack() {
        const std::span<const AskedBatch> requests = arguments_.batches();
        if (requests.size() > 1) {
            api::ReplyWithArray(redis_.context(), static_cast<long>(requests.size()));
        }
        for (const AskedBatch& request : requests) {
            replyToTakeBack(request);
        }
    }

    void replyToTakeBack(const AskedBatch& request) {
        std::string refused;
        double left = 0;
        try {
            begin(request);
            for (std::size_t i = 0; i < request.logs; i++) {
                try {
                    left += takeBack(logs_[i], request) ? 1 : 0;
                } catch (const Error& error) {
                    refused = refused.empty() ? error.text : refused;
                } catch (const std::exception&) {
                    refused = refused.empty() ? kUnreadable : refused;
                }
            }
        } catch (const Error& error) {
            refused = error.text;
        }
        if (refused.empty()) {
            api::ReplyWithLongLong(redis_.context(), integerOf(left));
        } else {
            api::ReplyWithError(redis_.context(), refused.c_str());
        }
    }

    bool takeBack(Log& log, const AskedBatch& request) {
        if (!clock_.isOwn) {
            moveNow(form_.latest(log));
        }
        log.ahead = std::numeric_limits<double>::infinity();  // so no entries are moved
        if (log.settle > log.cost) {
            return owe(log, request);
        }
        bool isBlocked = false;
        const double cost = log.cost;
        log.cost -= std::max(log.settle, 0.0);
        const bool isGone = form_.takeBack(log, request.names, request.loggedAt, request.takenAt, isBlocked);
        log.cost = cost;
        if (isGone && isBlocked) {
            endBlock(log, request.takenAt);
        }
        return isGone;
    }

    bool owe(Log& log, const AskedBatch& request) {
        const std::optional<double> ended =
            log.ended < 0 ? std::nullopt : std::optional(std::max(called_ - log.ended, 0.0));
        if constexpr (requires { form_.owe(log, 0.0, 0.0, 0.0, ended); }) {
            return form_.owe(log, log.settle - log.cost, request.loggedAt, request.takenAt, ended);
        }
        throw Error{"ERR no log of this algorithm can settle a cost"};
    }

    /// An entry of a request that was decided at `taken` was removed from this log, which is blocked.
    void endBlock(Log& log, double taken) {
        log.isBlocked = false;
        const bool hasStepped = clock_.isOwn && clock_.now < taken;
        const Found found = form_.read(log);
        const bool isBlocked = found.error == nullptr && found.isBlocked;
        if (isBlocked && !log.blockLength) {
            unreadable();
        }
        if (isBlocked && (log.blockedUntil - *log.blockLength >= taken || hasStepped) && !log.neverHasRoom() &&
            log.capacity() - log.used >= log.cost) {
            const double until = log.blockedUntil;
            BlockMemory memory(redis_, clock_);
            const std::optional<BlockMemory::Blocks> blocks = log.escalates ? memory.read(log) : std::nullopt;
            form_.unblock(log);  // may remove the log
            if (blocks) {
                memory.forget(log, *blocks, until);
            }
        }
    }

    Redis& redis_;
    Clock& clock_;
    const Arguments& arguments_;
    Form form_;
    double called_;          // the time of the call
    std::vector<Log> logs_;  // of the current batch
    std::vector<bool> hasReservation_;
    std::vector<double> held_;     // ms until the reservations of held requests
    std::vector<double> permits_;  // of each log; empty: not asked for
    std::vector<double> numbers_;
};

}  // namespace sliding_log::native
