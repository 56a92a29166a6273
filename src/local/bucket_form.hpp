// The local form of algorithm=bucket. Its size is constant.
#pragma once

#include <cstddef>
#include <cstdint>

#include "local/local_form.hpp"
#include "local/token_bucket.hpp"

namespace sliding_log {

class BucketForm {
  public:
    BucketForm(std::uint64_t now, std::int64_t burst) : bucket_(now, burst) {}

    void advance(const Check& check, std::uint64_t now) {
        bucket_.advance(now, check.limit, check.burst, check.windowMs);
    }

    std::int64_t msUntilRoom(const Check& check, std::uint64_t) const {
        return bucket_.msUntil(check.cost, check.limit, check.windowMs);
    }

    std::int64_t msUntilReservation(const Check&, std::uint64_t, std::int64_t wait) const { return wait; }

    std::int64_t remaining(const Check&, std::uint64_t) const { return bucket_.remaining(); }

    std::int64_t resetMs(const Check& check, std::uint64_t) const {
        return bucket_.resetMs(check.limit, check.burst, check.windowMs);
    }

    std::size_t cellsToAdd(std::uint64_t, std::uint64_t, std::int64_t) const { return 0; }

    void give(Cell&) {}

    void add(const Check& check, std::uint64_t, std::int64_t entries) {
        take(check, entries, TokenBucket::kLeastTokens);
    }

    std::int64_t entriesOfDenied(const Check&, std::uint64_t, std::int64_t entries) const { return entries; }

    void addDenied(const Check& check, std::uint64_t, std::int64_t entries) {
        take(check, entries, check.cap == 0 ? TokenBucket::kLeastTokens : check.burst - check.cap);
    }

    bool remove(std::uint64_t, std::int64_t entries) { return bucket_.takeBack(entries); }

    std::uint64_t latest(std::uint64_t now) const { return now; }

    void owe(const Check& check, std::uint64_t time, std::int64_t entries) { add(check, time, entries); }

    Chain takeSpare(std::uint64_t) { return {}; }

    Chain takeAll() { return {}; }

    std::uint64_t endsAt() const { return bucket_.fullAt(); }

  private:
    void take(const Check& check, std::int64_t entries, std::int64_t least) {
        bucket_.take(entries, least, check.limit, check.burst, check.windowMs);
    }

    TokenBucket bucket_;
};

static_assert(LocalForm<BucketForm>);

}  // namespace sliding_log
