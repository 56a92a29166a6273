// What the local form of an algorithm does: how this node keeps a log in its own memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "limit/cell.hpp"
#include "limit/check.hpp"

namespace sliding_log {

/// From one ms of the node's clock to a later one.
constexpr std::int64_t msBetween(std::uint64_t begin, std::uint64_t end) {
    return static_cast<std::int64_t>(end - begin);
}

/// Plain data without a vtable, so that it can stand in shared memory. Times are ms of a clock that never steps back.
/// Entries are what a request adds: mostly its cost, see LogState::entriesOf(); at least one. Checks are of the
/// form's algorithms. The cells that it grows into are given and taken by somebody else.
template <typename Form>
concept LocalForm = std::is_trivially_copyable_v<Form> && std::is_trivially_destructible_v<Form> &&
    requires(Form form, const Form& known, const Check& check, std::uint64_t now, std::uint64_t time,
             std::int64_t entries, std::int64_t wait, Cell& cell) {
    // brings it to now; the first thing of every decision
    { form.advance(check, now) } -> std::same_as<void>;
    // until there is room for the request, which may have room, if nobody else comes: 0 there is
    { known.msUntilRoom(check, now) } -> std::same_as<std::int64_t>;
    // until the first slot behind those that came before; `wait` is what msUntilRoom() said, more than 0
    { known.msUntilReservation(check, now, wait) } -> std::same_as<std::int64_t>;
    // what is left of the limit
    { known.remaining(check, now) } -> std::same_as<std::int64_t>;
    // until more of the limit becomes available; the window where all of it is
    { known.resetMs(check, now) } -> std::same_as<std::int64_t>;
    // the cells that it must be given before so many entries of that time are added
    { known.cellsToAdd(now, time, entries) } -> std::same_as<std::size_t>;
    { form.give(cell) } -> std::same_as<void>;
    // logs an admitted request at that time
    { form.add(check, time, entries) } -> std::same_as<void>;
    // of the entries that a denied attempt adds at now, how many will stay under the check's cap. The oldest
    // leave first, so reservations ahead stay before them
    { known.entriesOfDenied(check, now, entries) } -> std::same_as<std::int64_t>;
    // logs a denied attempt: so many entries as entriesOfDenied() said. The oldest leave, until there are no more
    // than the cap, or than there were: each that leaves is replaced by a newer one, so to nobody whose limit is
    // larger the log looks emptier
    { form.addDenied(check, now, entries) } -> std::same_as<void>;
    // takes back what add() logged; false where it has left already
    { form.remove(time, entries) } -> std::same_as<bool>;
    // what it does not need at now; to be taken after each decision
    { form.takeSpare(now) } -> std::same_as<Chain>;
    // all that it was given, with its end
    { form.takeAll() } -> std::same_as<Chain>;
    // from then on it says no more than a new one would
    { known.endsAt() } -> std::same_as<std::uint64_t>;
};

}  // namespace sliding_log
