// Records of whole NAMEs are obeyed: from two seconds after they were written, until they end, while Redis is away,
// too; and nobody obeys one before, or long after.
#include <algorithm>
#include <span>

#include "history.hpp"

namespace simulate {

namespace {

/// Until all nodes have read a record, if nothing fails.
constexpr Time kUntilRead = 2 * kSecond;

/// Clocks have milliseconds.
constexpr Time kRoundingOfClocks = 3 * kMs;

/// A node that reads it may be disturbed before.
constexpr Time kDisturbed = 3 * kSecond;

/// Before a world begins, and what disturbed it then.
constexpr Time kLongAgo = -kDisturbed;

}  // namespace

/// In the order in which they were written.
const std::vector<NameRecord>& History::recordsOf(const Limit& limit) const {
    static const std::vector<NameRecord> none;
    const auto found = records_.find(static_cast<std::size_t>(&limit - plan_.limits.data()));
    return found == records_.end() ? none : found->second;
}

/// True if a decision between may have obeyed a record that says this. It ends by the clock of Redis.
bool History::mayObey(const Limit& limit, NameRecord::What what, Time begin, Time end) const {
    const bool hasMoved = clockMoves_.contains(limit.store);
    return std::ranges::any_of(recordsOf(limit), [&](const NameRecord& record) {
        return record.what == what && record.begin <= end && (hasMoved || record.end + kUntilRead >= begin);
    });
}

/// True if each decision of this request obeys a record that says this: all nodes had read it, and neither Redis nor
/// another record has changed it since.
bool History::mustObey(const Limit& limit, NameRecord::What what, const Event& event) const {
    if (clockMoves_.contains(limit.store) || losses_.contains(limit.store) || divisions_.contains(limit.store) ||
        replacements_.contains(limit.store)) {
        return false;
    }
    const std::vector<NameRecord>& all = recordsOf(limit);
    const auto next = std::ranges::find_if(all, [&](const NameRecord& each) { return each.begin > event.sent; });
    if (next == all.begin()) {
        return false;
    }
    const NameRecord& latest = *(next - 1);
    return latest.what == what && event.answered < latest.end - kRoundingOfClocks &&
           (next == all.end() || next->begin > event.answered) &&
           knownSince(limit, std::span(all.begin(), next), event) < event.sent;
}

/// Its node got a new zone then; if it has its first one, long ago.
Time History::newZoneBefore(const Event& event) const {
    const auto found = newZones_.find(event.node);
    if (found == newZones_.end()) {
        return kLongAgo;
    }
    const auto next = std::ranges::upper_bound(found->second, event.answered);
    return next == found->second.begin() ? kLongAgo : *(next - 1);
}

/// All nodes have read it by then, unless something may have kept one from that.
Time History::readBy(const NameRecord& record) const {
    const Time read = record.begin + kUntilRead + 8 * plan_.delay + plan_.timeout;
    const auto next = std::ranges::lower_bound(faults_, record.begin - kDisturbed);
    return next == faults_.end() || *next > read ? read : kNever;
}

/// By then the node has answered by a record that says this, to a request that was sent later than `since`.
Time History::obeyedBy(const Limit& limit, NameRecord::What what, std::size_t node, Time since) const {
    const bool isSeen = what == NameRecord::What::Deny || what == NameRecord::What::Allow;
    const auto found = overridden_.find({limit.name, node, what == NameRecord::What::Deny});
    if (!isSeen || found == overridden_.end()) {
        return kNever;
    }
    const auto first = std::ranges::find_if(found->second, [&](const Interval& each) { return each.begin > since; });
    return first == found->second.end() ? kNever : first->end;
}

/// When the node of this request knew the last of these records: it had read it, or had obeyed it, as an answer tells
/// that no earlier record explains. A node obeys one until its end, or until it knows a later one.
Time History::knownSince(const Limit& limit, std::span<const NameRecord> records, const Event& event) const {
    const Time newZone = newZoneBefore(event);
    std::vector<Time> known;
    for (const NameRecord& record : records) {
        Time since = std::max(record.begin, newZone + kDisturbed);
        Time isOther = kNever;  // from then on the node obeys a later one, that says something else
        for (std::size_t i = known.size(); i-- > 0;) {
            if (records[i].what == record.what) {
                since = std::max(since, std::min(records[i].end + kUntilRead, isOther));
            } else {
                isOther = std::min(isOther, known[i]);
            }
        }
        known.push_back(std::min(newZone < record.begin ? readBy(record) : kNever,
                                 obeyedBy(limit, record.what, event.node, since)));
    }
    return known.back();
}

std::int64_t History::mostOf(const Limit& limit, Time begin, Time end) const {
    return mayObey(limit, NameRecord::What::Limit, begin, end) ? limit.mostEver() : limit.most();
}

std::int64_t History::leastOf(const Limit& limit, Time begin, Time end) const {
    return mayObey(limit, NameRecord::What::Limit, begin, end) ? limit.leastEver() : limit.least();
}

/// It may have been allowed, and not logged, or admitted by a dry run.
bool History::isUncounted(const Limit& limit, const Event& event) const {
    return mayObey(limit, NameRecord::What::Allow, event.sent, event.answered) ||
           mayObey(limit, NameRecord::What::DryRun, event.sent, event.answered);
}

std::string History::notObeyed() const {
    for (const Event& event : events_) {
        for (const std::size_t number : plan_.locations[event.location].limits) {
            const Limit& limit = plan_.limits[number];
            if (!limit.obeysName || limit.isDry || limit.mayHaveRecord(event.key)) {
                continue;
            }
            const std::string request = "limit " + limit.name + ": a request that was sent at " + inSeconds(event.sent);
            const bool isAdmitted = event.end == Event::End::Admitted ||
                                    (event.end == Event::End::Otherwise && plan_.onError != "deny");  // by a 503
            const bool isDenied = event.end == Event::End::Denied && event.denier == limit.name;
            if (isAdmitted && mustObey(limit, NameRecord::What::Deny, event)) {
                return request + " was admitted, though all are denied";
            }
            if (isDenied &&
                (mustObey(limit, NameRecord::What::Allow, event) || mustObey(limit, NameRecord::What::DryRun, event))) {
                return request + " was denied by " + event.source + ", though nobody is";
            }
            if (isDenied && event.source == "override" &&
                !mayObey(limit, NameRecord::What::Deny, event.sent, event.answered)) {
                return request + " was denied by a record that is over";
            }
        }
    }
    return {};
}

}  // namespace simulate
