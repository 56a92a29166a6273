// The local form of algorithm=bucket. Two numbers: it never grows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "limit/local_form.hpp"
#include "limit/token_bucket.hpp"

namespace sliding_log {

class BucketForm {
  public:
    BucketForm(std::uint64_t now, std::int64_t burst) : bucket_(now, burst) {}

    void advance(const Question& question, std::uint64_t now) {
        bucket_.advance(now, question.limit, question.burst, question.windowMs);
    }

    std::int64_t msUntilRoom(const Question& question, std::uint64_t) const {
        return bucket_.msUntil(question.cost, question.limit, question.windowMs);
    }

    std::int64_t msUntilSlot(const Question&, std::uint64_t, std::int64_t wait) const { return wait; }

    std::int64_t remaining(const Question&, std::uint64_t) const { return bucket_.remaining(); }

    std::int64_t resetMs(const Question& question, std::uint64_t) const {
        return bucket_.resetMs(question.limit, question.burst, question.windowMs);
    }

    std::size_t cellsToAdd(std::uint64_t, std::uint64_t, std::int64_t) const { return 0; }

    void give(Cell&) {}

    void add(const Question& question, std::uint64_t, std::int64_t entries) {
        take(question, entries, TokenBucket::kLeastTokens);
    }

    std::int64_t entriesOfDenied(const Question&, std::uint64_t, std::int64_t entries) const { return entries; }

    void addDenied(const Question& question, std::uint64_t, std::int64_t entries) {
        take(question, entries, question.cap == 0 ? TokenBucket::kLeastTokens : question.burst - question.cap);
    }

    bool remove(std::uint64_t, std::int64_t entries) { return bucket_.giveBack(entries); }

    Chain takeSpare(std::uint64_t) { return {}; }

    Chain takeAll() { return {}; }

    std::uint64_t endsAt() const { return bucket_.fullAt(); }

  private:
    void take(const Question& question, std::int64_t entries, std::int64_t least) {
        bucket_.take(entries, least, question.limit, question.burst, question.windowMs);
    }

    TokenBucket bucket_;
};

static_assert(LocalForm<BucketForm>);

}  // namespace sliding_log
