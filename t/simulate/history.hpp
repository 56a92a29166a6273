// What clients and the upstream saw of a simulation, and whether the limits were kept: checked by what nobody can
// doubt, the times at which a request was sent and answered. Its decision lies between.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "plan.hpp"
#include "schedule.hpp"

namespace simulate {

/// Entries and blocks have milliseconds: two that are so much less than a window apart may be in different ones.
constexpr Time kRounding = 2 * kMs;

constexpr Time kNever = std::numeric_limits<Time>::max();

/// 0: it has not begun, or not ended.
struct Interval {
    Time begin = 0;
    Time end = 0;
};

/// What is admitted by a time counts then, if it was admitted since another time.
using Since = std::function<Time(Time)>;

struct Event {
    enum class End {
        Admitted,   // by Redis: it counts
        Otherwise,  // admitted, but not counted in Redis: by on_error
        Denied,
        Unknown  // no answer
    };

    std::size_t location = 0;
    std::size_t key = 0;
    std::int64_t cost = 1;
    std::int64_t trueCost = 1;  // as the upstream tells
    int upstreamStatus = 200;
    Time upstreamTime = 0;  // until the upstream answers
    std::size_t node = 0;
    Time sent = 0;
    Time answered = 0;  // Unknown: when the client left
    Interval underUpstream;
    End end = End::Unknown;
    int status = 0;               // 0: no answer
    bool hasLeft = false;         // the client
    std::string denier;           // the NAME
    std::int64_t retryAfter = 0;  // s; 0: none
    std::string source;
    std::string sources;  // by limit, see Answer

    /// What decided this limit.
    std::string_view sourceOf(std::string_view limit) const;
};

/// True if Redis has counted what it admitted.
bool isOfRedis(std::string_view source);

/// What a request may have done to the log of one of its limits.
struct Share {
    const Event* event;
    std::int64_t cost;      // at least, if it was admitted
    std::int64_t mostCost;  // before and after it is settled
    bool counts;            // for certain, from its decision on
    Time mayCount;  // until then entries of it may have been made; of inflight: until then it may have its place
    Time isGone;    // from then on there is nothing of it
};

/// A record of a whole NAME, from when it was written until it ends by itself.
struct NameRecord {
    enum class What { Limit, Allow, Deny, DryRun };

    What what = What::Limit;
    Time begin = 0;
    Time end = 0;
};

/// Of one limit and key, in the order of the answers.
using Log = std::vector<Share>;

class History {
  public:
    explicit History(const Plan& plan) : plan_(plan) {}

    void add(Event event);

    /// A record of this limit was written: the latest one counts.
    void recorded(std::size_t limit, NameRecord record) { records_[limit].push_back(record); }

    /// A store has lost what it had.
    void lost(std::size_t store, Time time) { losses_[store].push_back({time, time}); }

    /// The clock of a store was set: what it had decided has other times.
    void clockMoved(std::size_t store, Time time) {
        lost(store, time);
        clockMoves_[store].push_back(time);
    }

    /// The node knows of no record, until it reads them again. Its older workers finish with the zone that they have.
    void hasNewZone(std::size_t node, Time time) { newZones_[node].push_back(time); }

    /// Its name means another machine.
    void hasOtherAddress(std::size_t store, Time time) { moves_.try_emplace(store, time); }

    /// nginx's resolver uses what it knows for as much longer as the clock of its node is set back.
    void nodeClockMoved(std::size_t node, Time time, Time step) {
        if (step < 0) {
            oldAddresses_[node].push_back({time, time - step});
        }
    }

    /// Some nodes may have another server than others, until hasReplaced(): each admits a limit.
    void replaces(std::size_t store, Time time) { replacements_[store].push_back({time, 0}); }
    void hasReplaced(std::size_t store, Time time) { replacements_[store].back().end = time; }

    /// Two servers may decide, each for itself, until united().
    void divided(std::size_t store, Time time) { divisions_[store].push_back({time, 0}); }
    /// One of them has done this since they were divided, and it is lost now.
    void lostWrite(std::size_t store, const std::vector<std::string>& command, Interval divided);
    void united(std::size_t store, Interval divided);

    /// A fault: calls may be lost, or late.
    void disturbed(Time time) { faults_.push_back(time); }

    /// A worker of the node stands still, or has ended.
    void disturbedWorker(std::size_t node, Time time) {
        faults_.push_back(time);
        workerFaults_[node].push_back(time);
    }

    /// What is wrong; empty: nothing.
    std::string check() const;

  private:
    using Logs = std::map<std::pair<std::size_t, std::size_t>, Log>;  // by limit and key

    Logs logs() const;
    Share shareOf(const Event& event, const Limit& limit) const;
    bool isFaulty(const Event& event) const;
    bool isOfFaultyWorker(const Event& event) const;
    bool mayHaveOldAddress(const Event& event) const;
    bool isCounted(const Event& event, const Limit& limit) const;
    Time lossInPlaceBefore(const Limit& limit, std::size_t key, Time time) const;
    Time lossBefore(const Limit& limit, std::size_t key, Time time) const;
    std::int64_t moreLimits(const Limit& limit, std::size_t key, Time begin, Time end) const;
    Time replacing(const Limit& limit, std::size_t key, Time begin, Time end) const;
    std::int64_t lostWrites(const Limit& limit, std::size_t key, Time begin, Time end) const;

    // too_many.cpp
    std::string tooMany(const Limit& limit, const Log& log) const;
    std::string tooManySince(const Limit& limit, const Log& log, const Since& since, std::int64_t limits) const;
    std::int64_t takenBackForOthers(const Limit& limit, const Log& log, Time begin, Time end) const;
    std::string tooManyOfBucket(const Limit& limit, const Log& log) const;
    std::string tooManyInFlight(const Limit& limit, const Log& log) const;

    // too_strict.cpp
    std::string tooStrict(const Logs& logs) const;
    bool mayDeny(const Limit& limit, const Log& log, const Event& event) const;
    bool hasClockMoved(std::size_t store, Time begin, Time end) const;
    bool leavesNothing(const Limit& limit, const Event& event) const;

    // of_names.cpp
    const std::vector<NameRecord>& recordsOf(const Limit& limit) const;
    bool mayObey(const Limit& limit, NameRecord::What what, Time begin, Time end) const;
    Time newZoneBefore(const Event& event) const;
    Time readBy(const NameRecord& record) const;
    Time obeyedBy(const Limit& limit, NameRecord::What what, std::size_t node, Time since) const;
    Time knownSince(const Limit& limit, std::span<const NameRecord> records, const Event& event) const;
    bool mustObey(const Limit& limit, NameRecord::What what, const Event& event) const;
    std::int64_t mostOf(const Limit& limit, Time begin, Time end) const;
    std::int64_t leastOf(const Limit& limit, Time begin, Time end) const;
    bool isUncounted(const Limit& limit, const Event& event) const;
    std::string notObeyed() const;

    // retry_after.cpp
    std::string wrongRetryAfter(const Limit& limit, const Log& log) const;

    // unexpected.cpp
    std::string unexpected() const;
    bool isUpstreams(const Event& event) const;
    std::string notBlocked(const Limit& limit, const Log& log) const;

    const Plan& plan_;
    std::vector<Event> events_;
    std::map<std::size_t, std::vector<Interval>> losses_;        // by store: what was decided by then may be lost
    std::map<std::size_t, std::vector<Interval>> divisions_;     // by store
    std::map<std::size_t, std::vector<Interval>> replacements_;  // by store
    /// By store and key: when it may have been written, and what the other server decided without it.
    std::map<std::pair<std::size_t, std::string>, std::vector<Interval>> lostWrites_;
    /// Answers by records, by NAME and node; true: denials.
    std::map<std::tuple<std::string, std::size_t, bool>, std::vector<Interval>> overridden_;
    std::vector<Time> faults_;
    std::map<std::size_t, std::vector<NameRecord>> records_;     // by limit
    std::map<std::size_t, std::vector<Time>> clockMoves_;        // by store
    std::map<std::size_t, std::vector<Time>> workerFaults_;      // by node
    std::map<std::size_t, std::vector<Time>> newZones_;          // by node
    std::map<std::size_t, Time> moves_;                          // by store: the first one
    std::map<std::size_t, std::vector<Interval>> oldAddresses_;  // by node
};

/// For messages.
std::string inSeconds(Time time);

}  // namespace simulate
