// The functions of an algorithm's local form: a log in the memory of this node.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "limit/check.hpp"
#include "local/cell.hpp"

namespace sliding_log {

/// The time from `begin` to `end`, in ms; negative if `end` is earlier.
constexpr std::int64_t msBetween(std::uint64_t begin, std::uint64_t end) {
    return static_cast<std::int64_t>(end - begin);
}

/// Plain data without a vtable, so that it can be in shared memory. Times are in ms of a clock that never steps back.
/// Entries are what a request adds, at least one: usually its cost, see LogState::entriesOf(). Checks must be of the
/// algorithms of the form. Cells are given and taken by the owner.
template <typename Form>
concept LocalForm = std::is_trivially_copyable_v<Form> && std::is_trivially_destructible_v<Form> &&
    requires(Form form, const Form& known, const Check& check, std::uint64_t now, std::uint64_t time,
             std::int64_t entries, std::int64_t wait, Cell& cell) {
    // updates the form to now; to be called first in each decision
    { form.advance(check, now) } -> std::same_as<void>;
    // until there is room for the request if no other request comes; 0: there is room. The limit must permit the
    // request
    { known.msUntilRoom(check, now) } -> std::same_as<std::int64_t>;
    // until a reservation after those of previous requests; `wait` is the result of msUntilRoom(), more than 0
    { known.msUntilReservation(check, now, wait) } -> std::same_as<std::int64_t>;
    // what is left of the limit
    { known.remaining(check, now) } -> std::same_as<std::int64_t>;
    // until more of the limit is available; the window if all of it is
    { known.resetMs(check, now) } -> std::same_as<std::int64_t>;
    // the number of cells to be given before this number of entries of this time is added
    { known.cellsToAdd(now, time, entries) } -> std::same_as<std::size_t>;
    { form.give(cell) } -> std::same_as<void>;
    // logs an admitted request at this time
    { form.add(check, time, entries) } -> std::same_as<void>;
    // of the entries that a denied request adds at now, the number that stays under the cap of the check. The oldest
    // entries leave first, so reservations ahead are kept rather than these
    { known.entriesOfDenied(check, now, entries) } -> std::same_as<std::int64_t>;
    // logs a denied request; `entries` is the result of entriesOfDenied(). The oldest entries leave until there are no
    // more than the cap, or than before. Each of them is replaced by a newer one, so the log does not become emptier
    // for a check with a larger limit
    { form.addDenied(check, now, entries) } -> std::same_as<void>;
    // takes back what add() logged; false if it has left already
    { form.remove(time, entries) } -> std::same_as<bool>;
    // now, or the time of the latest entry if that is later: what a request owes that has ended is added there
    { known.latest(now) } -> std::same_as<std::uint64_t>;
    // adds entries of latest(), beyond the limit, too; the cells of cellsToAdd() were given
    { form.owe(check, time, entries) } -> std::same_as<void>;
    // the cells that are not needed at now; to be called after each decision
    { form.takeSpare(now) } -> std::same_as<Chain>;
    // all cells; the form must not be used afterwards
    { form.takeAll() } -> std::same_as<Chain>;
    // from this time on it is equivalent to a new one
    { known.endsAt() } -> std::same_as<std::uint64_t>;
};

}  // namespace sliding_log
