#include "burden.hpp"

#include <array>
#include <string_view>

namespace simulate {

namespace {

/// What refuses a call for a while, as BUSY and CLUSTERDOWN, is asked again after this.
constexpr Time kRepeated = 10 * kMs;

/// Bytes. A call has the take-backs of a turn, or all requests of a log that came while it waited.
constexpr std::uint64_t kOfCall = 3000;
constexpr std::uint64_t kOfRequest = 100;
constexpr std::uint64_t kOfScript = 120'000;
constexpr std::uint64_t kOfGreeting = 1000;
constexpr std::uint64_t kOfHealth = 2000;

struct Bound {
    std::string_view what;
    std::uint64_t got;
    std::uint64_t most;
};

}  // namespace

Burden::Second& Burden::at(Time now) {
    const auto second = static_cast<std::size_t>(now / kSecond);
    while (seconds_.size() <= second) {
        seconds_.push_back({.workers = seconds_.back().workers});
    }
    return seconds_[second];
}

Burden::Second Burden::until(std::size_t second, std::size_t before) const {
    const auto of = [&](std::size_t number) {
        return number < seconds_.size() ? seconds_[number] : Second{.workers = seconds_.back().workers};
    };
    Second sum = of(second);
    for (std::size_t i = 1; i <= std::min(before, second); i++) {
        const Second earlier = of(second - i);
        sum.workers = std::max(sum.workers, earlier.workers);
        sum.limits += earlier.limits;
        sum.ended += earlier.ended;
        sum.faults += earlier.faults;
    }
    return sum;
}

std::string Burden::check(const std::vector<RedisHost*>& servers, Time longestCall) const {
    std::size_t end = 0;
    for (const RedisHost* server : servers) {
        end = std::max(end, server->seconds().size());
    }
    for (std::size_t second = 0; second < end; second++) {
        Traffic got;
        for (const RedisHost* server : servers) {
            got += second < server->seconds().size() ? server->seconds()[second] : Traffic();
        }
        const Second causes = until(second, 1);
        const Second waiting = until(second, static_cast<std::size_t>((timeout_ + kSecond - 1) / kSecond));
        const std::uint64_t connections = causes.workers * servers.size();
        const Time repeated = waiting.faults > 0 ? std::min(timeout_, kSecond) : 0;
        const std::uint64_t repetitions = waiting.limits * static_cast<std::uint64_t>(repeated / kRepeated);
        const std::uint64_t bytes = kOfCall * got.ofLogs + kOfRequest * causes.limits + kOfScript * got.scriptLoads +
                                    kOfGreeting * got.connects + kOfHealth * connections;
        // a worker that quits has no connection to spare: one for each request that had waited for its delay
        const std::uint64_t waited = causes.faults > 0 ? causes.limits / 2 : 0;
        const std::array<Bound, 5> bounds = {
            {{"connects", got.connects, 6 * connections + 4 * causes.faults + waited},
             {"SCRIPT LOAD", got.scriptLoads, 4 * connections * scripts_ + 2 * causes.faults},
             {"CLUSTER SLOTS", got.mapRequests, 2 * causes.workers + 4 * causes.faults},
             // where requests wait for a place, their log is asked in each turn
             {"calls of logs", got.ofLogs, causes.limits + repetitions + causes.ended + 50 * connections + 100},
             {"bytes", got.bytes, bytes}}};
        for (const Bound& bound : bounds) {
            if (bound.got > bound.most) {
                return "second " + std::to_string(second) + ": " + std::to_string(bound.got) + " " +
                       std::string(bound.what) + ", more than " + std::to_string(bound.most);
            }
        }
        if (got.longest > longestCall) {
            return "second " + std::to_string(second) + ": a call took " + std::to_string(got.longest / kUs) + " us";
        }
    }
    return {};
}

}  // namespace simulate
