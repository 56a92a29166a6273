#include "store/leases.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <tuple>
#include <utility>

#include "this_process.hpp"

namespace sliding_log {

namespace {

/// Between two parts of a renewal.
constexpr ngx_msec_t kLeastPauseMs = 2;

/// A renewal of all takes this part of their length, so that the workers of a fleet, which begin together when a server
/// is back, do not keep it busy.
constexpr ngx_msec_t kPartOfLength = 20;

}  // namespace

void Leases::sort(std::span<Lease*> leases) {
    std::ranges::sort(leases, [](const Lease* left, const Lease* right) {
        return std::tuple(left->check->hashSlot, left->hash, left->localMs) <
               std::tuple(right->check->hashSlot, right->hash, right->localMs);
    });
}

Leases::Group& Leases::groupOf(const Lease& lease) {
    const auto length = static_cast<ngx_msec_t>(lease.length->ownMs());
    const auto found = std::ranges::find(groups_, length, [](const auto& group) { return group->lengthMs; });
    return found != groups_.end() ? **found : *groups_.emplace_back(std::make_unique<Group>(*this, length, log_));
}

void Leases::begin(Lease& lease) {
    held_++;
    Group& group = groupOf(lease);
    lease.hash = std::hash<std::string_view>()(lease.check->key);
    lease.begunAt = lease.renewedAt = nowMs();
    group.leases.pushBack(lease);
    if (!group.timer.isSet()) {
        group.renewalAt = nowMs();
        group.hasFailed = false;
        group.rest();
    }
}

void Leases::end(Lease& lease) {
    static_cast<ListHook<ByRenewal>&>(lease).unlink();
    static_cast<ListHook<OnlyInRedis>&>(lease).unlink();
    lease.check = nullptr;
    held_--;
}

void Leases::renewSoon(ngx_msec_t afterMs) {
    for (const std::unique_ptr<Group>& group : groups_) {
        if (!group->leases.isEmpty()) {
            group->isUnderWay = false;
            group->timer.set(std::min(afterMs, group->lengthMs / 3));
        }
    }
}

/// A renewal that is under way is not interrupted: most of those that wait in it have not failed.
void Leases::renewAgain() {
    for (const std::unique_ptr<Group>& group : groups_) {
        if (!group->leases.isEmpty() && !std::exchange(group->hasFailed, true) && !group->isUnderWay) {
            group->rest();
        }
    }
}

/// Until the next renewal.
void Leases::Group::rest() {
    const ngx_msec_t due = renewalAt + lengthMs / (hasFailed ? 10 : 3);
    timer.set(isBefore(nowMs(), due) ? due - nowMs() : 1);
}

std::int64_t entriesOf(std::span<Lease* const> leases) {
    std::int64_t sum = 0;
    for (const Lease* lease : leases) {
        sum += lease->check->cost;
    }
    return sum;
}

void renewIn(LocalStore& local, std::span<Lease* const> leases) {
    const Lease& first = *leases.front();
    const std::uint64_t now = local.renew(*first.check, entriesOf(leases), first.localMs);
    for (Lease* lease : leases) {
        lease->localMs = now;
    }
}

/// Without leases the timer rests until the next one begins.
void Leases::Group::fire() {
    if (!std::exchange(isUnderWay, true)) {
        renewalAt = nowMs();
        hasFailed = false;
    }
    std::array<Lease*, kMostAtOnce> some;
    std::size_t count = 0;
    std::int64_t entries = 0;
    bool isRest = false;
    while (!leases.isEmpty() && !isBefore(renewalAt, leases.front().renewedAt)) {
        entries += leases.front().check->cost;
        isRest = count == some.size() || (count > 0 && entries > kMostEntriesAtOnce);
        if (isRest) {
            break;
        }
        Lease& lease = *leases.popFront();
        lease.renewedAt = renewalAt + 1;
        lease.present();
        leases.pushBack(lease);
        some[count++] = &lease;
    }
    if (count > 0) {
        owner.renew_(std::span(some).first(count));
    }
    if (leases.isEmpty()) {
        isUnderWay = false;
    } else if (isRest) {
        timer.set(std::max(kLeastPauseMs, lengthMs / kPartOfLength * count / owner.held_));
    } else {
        isUnderWay = false;
        rest();
    }
}

}  // namespace sliding_log
