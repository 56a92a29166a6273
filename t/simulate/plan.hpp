// What a simulation draws of its seed: the limits, the locations that have them, and nginx's configuration of both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel.hpp"
#include "random.hpp"
#include "redis/server.hpp"

namespace simulate {

/// What the names of all keys in Redis begin with.
constexpr std::string_view kPrefix = "rl:sliding:";

enum class Algorithm { Log, Compact, Counter, Bucket, Quota, Inflight };

/// Near this the wall clocks begin.
constexpr Time kBeginning = 1'700'000'000 * kSecond;

/// The ports of nginx.
constexpr std::uint16_t kHttp = 80;
constexpr std::uint16_t kHttp2 = 81;

constexpr Address kNameServer{0x0a040001, 53};

/// An upstream takes no longer.
constexpr Time kLongestAnswer = 10 * kSecond;

/// A record of a NAME ends after this at the latest.
constexpr Time kLongestRecord = 10 * kSecond;

/// The largest cost of a request, in units of Plan::ofCost.
constexpr std::int64_t kMostCost = 12;

struct Limit {
    std::string name;
    std::size_t store = 0;  // of Plan::stores; if it has several homes, that of the first key
    std::size_t homes = 1;  // the stores that its keys are in, by a variable
    Algorithm algorithm = Algorithm::Log;
    std::int64_t limit = 1;
    std::int64_t otherwise = 1;  // after some reloads
    Time window = kSecond;       // of inflight: the lease; of quota: the period
    bool hasCost = false;        // cost=$arg_c
    bool refunds = false;        // refund=5xx
    bool settles = false;        // settle=$upstream_http_x_cost
    bool isDry = false;          // dry_run=on
    bool hasOverride = false;    // override=on
    bool obeysName = false;      // that, or override=name
    bool countsAll = false;
    Time delay = 0;
    Time block = 0;
    std::int64_t prefetch = 1;

    /// The name of its log in Redis.
    std::string logOf(std::size_t key) const { return std::string(kPrefix) + name + ":{" + std::to_string(key) + "}"; }

    std::size_t storeOf(std::size_t key) const { return homes == 1 ? store : (store + key) % homes; }

    std::int64_t most() const { return std::max(limit, otherwise); }
    std::int64_t least() const { return std::min(limit, otherwise); }

    /// Of records that say another limit.
    static constexpr std::int64_t kLimitOfRecords = 7;

    /// Also under records of its NAME.
    std::int64_t mostEver() const { return obeysName ? std::max(most(), kLimitOfRecords) : most(); }
    std::int64_t leastEver() const { return obeysName ? std::min(least(), kLimitOfRecords) : least(); }

    /// Only this key has records, so that what they do to others can be checked.
    static constexpr std::size_t kKeyOfRecords = 0;
    bool mayHaveRecord(std::size_t key) const { return hasOverride && key == kKeyOfRecords; }

    /// Its log lasts until its period ends, or a debt is paid.
    bool mayOutlast(Time quiet) const {
        return algorithm == Algorithm::Quota ? window > quiet : algorithm == Algorithm::Bucket && settles;
    }

    /// It decides as the log of all entries would.
    bool isExact() const { return algorithm == Algorithm::Log || algorithm == Algorithm::Compact; }
};

struct Location {
    std::string path;
    std::vector<std::size_t> limits;  // of Plan::limits
    bool isProxied = false;
    /// An internal redirect leads there, behind so many of the limits; the others are that location's.
    std::string redirectsTo;
    std::size_t limitsBefore = 0;
};

struct StorePlan {
    std::size_t servers = 1;    // more are a cluster
    std::size_t replicas = 0;   // of each; of its only server with Sentinels
    Time lag = 5 * kMs;         // replicas are no further behind
    bool needsReplica = false;  // min-replicas-to-write 1, min-replicas-max-lag 1
    bool isNativeOff = false;
    bool hasNative = false;
    Scripts scripts = Scripts::ByNative;
    bool hasPassword = false;  // in a file
    bool hasName = false;      // its only server, which may be started on another machine
    bool isReplaced = false;   // its only server, by another one, which knows nothing of its logs

    bool isCluster() const { return servers > 1; }
};

struct Plan {
    std::vector<Limit> limits;
    std::vector<Location> locations;
    std::size_t nodes = 1;
    std::size_t workers = 1;
    std::vector<StorePlan> stores;
    std::size_t keys = 1;
    Time timeout = 100 * kMs;
    Time delay = 0;             // of the network, without faults, at most
    Time delayOfNear = 0;       // the same inside a region
    std::int64_t slowness = 1;  // windows, and the times between requests, are so many times as long
    std::int64_t ofCost = 1;    // costs are so many times as large
    std::size_t regions = 1;
    std::string_view onError = "local";
    bool hasOtherZone = false;  // after some reloads

    /// Some answers, and the leases, take so many times as long as in other worlds.
    std::int64_t longerAnswers() const { return slowness > 1 ? 100 : 1; }

    /// Of windows and leases.
    Time longestWindow() const;

    /// No call that names a log keeps a Redis for longer.
    Time longestCall() const { return (ofCost > 1 ? 10 : 2) * kMs; }

    /// So many are in use: each algorithm has one.
    std::size_t scripts() const;

    /// After so long without a request, nobody uses what is in a log.
    Time quiet() const;

    bool areNear(std::size_t node, std::size_t store) const { return node % regions == store % regions; }

    /// nginx.conf of each node. The answer tells what decided. `servers`: what the block of each store has
    /// of them.
    /// `errorLog`: file and level.
    /// `isOther`: the limits are those of some reloads.
    std::string configuration(const std::vector<std::string>& servers, Address upstream, const std::string& errorLog,
                              bool isOther) const;
};

/// What a world may be asked to have: something of this is in its plan.
enum class Kind { Any, Standalone, Sentinel, Cluster, Regions, Permits, Queues, Names, Replaced, Slow, Large };

/// By its name in lower case; nullopt: there is none.
std::optional<Kind> kindNamed(std::string_view name);
std::string_view nameOf(Kind kind);

Plan drawPlan(Random random, Kind kind);

}  // namespace simulate
