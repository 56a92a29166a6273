// What clients saw of a simulation, and whether the limits were kept: checked by what nobody can doubt, the times at
// which a request was sent and answered. Its decision lies between.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan.hpp"
#include "schedule.hpp"

namespace simulate {

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
    int upstreamStatus = 200;
    std::size_t node = 0;
    Time sent = 0;
    Time answered = 0;  // Unknown: when the client left
    End end = End::Unknown;
    std::string denier;  // the NAME
    std::string source;
};

class History {
  public:
    explicit History(const Plan& plan) : plan_(plan) {}

    void add(Event event) { events_.push_back(std::move(event)); }

    /// Redis has lost what it had.
    void lost(Time time) { losses_.push_back(time); }

    /// A fault: what is on its way may be lost, or late.
    void disturbed(Time time) { faults_.push_back(time); }

    /// What is wrong; empty: nothing.
    std::string check() const;

  private:
    struct Share;  // of a request in one log
    using Log = std::vector<Share>;

    std::string tooMany(const Limit& limit, const Log& log) const;
    bool mayDeny(const Limit& limit, const Log& log, const Event& event) const;
    std::string tooStrict(const std::map<std::pair<std::size_t, std::size_t>, Log>& logs) const;
    bool isFaulty(const Event& event) const;
    bool isOfAll(const Event& event) const;
    Time lossBefore(Time time) const;
    Time mayCountUntil(const Event& event) const;

    const Plan& plan_;
    std::vector<Event> events_;
    std::vector<Time> losses_;
    std::vector<Time> faults_;
};

}  // namespace simulate
