#include "store/take_back.hpp"

#include <algorithm>
#include <cstdlib>

#include "limit/bounds.hpp"
#include "store/work.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

/// How long an entry may count after its time: a counter also weighs the previous window, and a bucket may take several
/// windows to fill up.
std::int64_t lastsMs(const Check& check) {
    const std::int64_t full = std::max<std::int64_t>(check.limit, 1);
    std::int64_t windows = 1;
    switch (rowOf(check.algorithm).lasts) {
        case Lasts::Window:
        case Lasts::Period:
        case Lasts::Lease:
            break;
        case Lasts::NextWindow:
            windows = 2;
            break;
        case Lasts::Refill:
            windows = (check.burst + check.owed() + full - 1) / full;
            break;
    }
    return windows > kLongestTimeMs / check.windowMs ? kLongestTimeMs : windows * check.windowMs;
}

}  // namespace

std::uint64_t entriesOf(const Check& check) {
    return static_cast<std::uint64_t>(check.isSettled() ? std::abs(check.settled - check.cost) : check.cost);
}

void TakeBack::assign(std::span<const Check> checks, std::uint64_t logged, std::int64_t aheadMs) {
    algorithm = checks.front().algorithm;
    hashSlot = checks.front().hashSlot;
    isRelease = owes = false;
    settles = std::ranges::any_of(checks, &Check::isSettled);
    leftLogs.clear();
    entries = 0;
    loggedMs = logged;
    work = 0;
    std::int64_t lasts = 0;
    for (const Check& check : checks) {
        owes = owes || check.owed() > 0;
        entries += entriesOf(check);
        work += workOfTakeBack(check);
        lasts = std::max(lasts, lastsMs(check));
    }
    ended = nowMs();
    until = ended + static_cast<ngx_msec_t>(lasts + aheadMs);
}

}  // namespace sliding_log
