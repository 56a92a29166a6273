// Known denials: what Redis denied stays denied for up to a second, for all workers of the node, without another call.
//
// Why this is correct: a denied request is not logged, so until the time that the reply named, only the removal of
// entries can make room. Removals by this node end its known denials of the log at once, by a generation. Removals
// elsewhere (a refund by another node, DEL, a fail-over) are not reported to this node: hence the second. Times are
// counted from before the check was sent, so they end early rather than late. Other checks to the same log (a
// raised limit, another window) have another identity. A log that has no room for a request has none for a request of
// a larger cost, so a denial holds for these, too; it proves nothing about smaller costs, and their admission, nothing
// about it.
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <string_view>

#include "limit/check.hpp"
#include "node/signature.hpp"
#include "shared/seqlock.hpp"
#include "shared/set_table.hpp"

namespace sliding_log {

/// What the node knows of a check.
enum class DenialState {
    None,   // Redis has to be asked
    Holds,  // it is denied
    Due     // it is denied; the request that claims it asks for all
};

/// Memory of fixed size, shared by processes, read without a lock.
///
/// A record has a sequence number: a reader that was overtaken by a writer gets None. There are four records per hash;
/// a new denial replaces one that is over, otherwise the one that ends first. One identity has at most two of them,
/// and the second never takes the place of another's denial: so many different costs push out nobody. A record that a
/// worker was writing when it was killed is none, and is the first to be replaced; that of a stopped worker is skipped.
/// The headings of these four are together in one cache line, apart from the records: most requests are of keys that
/// are not denied, and read nothing else.
///
/// The generations come first; each is shared by all logs whose key hashes map to it. A log that shares its generation
/// with another may be asked more often than necessary; there is no other effect.
class KnownDenials {
  public:
    static constexpr std::size_t kSlotBytes = 512;  // of a record and its heading
    static constexpr std::size_t kHeadingBytes = 16;
    static constexpr std::size_t kMostLogs = Signature::kMostLogs;
    static constexpr std::size_t kLongestIdentity = 304;

    /// The maximum age of a known denial, from the sending of its check.
    static constexpr std::uint64_t kLastsMs = 1000;

    /// At this age a denial that would last longer is due: one request asks while the others stay denied, so that a
    /// denied crowd causes one call instead of one in every worker when the second is over. The rest of the second is
    /// for the reply: fifty round trips to a near Redis, half of the usual `timeout`. Asking 5 % early costs 5 % more
    /// calls.
    static constexpr std::uint64_t kDueAfterMs = 950;

    KnownDenials() = default;

    /// `memory`: zeroed, or a table that other processes use; of `bytes`, at least five records', and aligned to 64.
    /// `self`: the process that uses this object.
    KnownDenials(void* memory, std::size_t bytes, pid_t self = getpid());

    /// The signature is that of the checks, here and below. Unless None, the verdicts are those of Redis, with the
    /// remaining time. If the denied request had other costs, the time until there is room is a lower bound where a
    /// larger cost is asked now.
    DenialState find(const Signature& signature, std::span<const Check> checks, std::uint64_t nowMs,
                     std::span<Verdict> verdicts) const;

    /// True for one of the requests for which it is due; this one asks for all.
    bool claim(const Signature& signature, std::span<const Check> checks, std::uint64_t nowMs);

    /// Changes whenever an entry is removed from one of the logs of the signature; for publish().
    std::uint32_t generation(const Signature& signature) const;

    /// Stores a denial of a check that was sent at `sentMs`, when its logs had this generation. It is not stored if
    /// entries were removed since, or if no time remains (with `delay=` a request is admitted before there is room), or
    /// if it has more logs or a longer identity than a record holds, or if all records are being written, or if a known
    /// denial of smaller costs lasts as long.
    void publish(const Signature& signature, std::uint32_t sentGeneration, std::uint64_t sentMs,
                 std::span<const Check> checks, std::span<const Verdict> verdicts);

    /// Redis has admitted this check, which a known denial denies.
    void erase(const Signature& signature, std::span<const Check> checks);

    /// Entries are removed from the logs of these hashes. To be called when the removal is sent, to end denials learned
    /// before, and when it is answered or lost, to end denials learned in between.
    void entriesLeave(std::span<const std::uint32_t> logs);

  private:
    static constexpr std::size_t kWays = 4;
    static constexpr unsigned kMostOfOne = 2;                         // of the records of a set, by one identity
    static constexpr std::uint64_t kSoonMs = kLastsMs - kDueAfterMs;  // denials that end so soon after each other
    static constexpr std::size_t kShareOfGenerations = 16;            // of the memory

    using Generation = std::atomic<std::uint32_t>;

    struct Entry {
        std::atomic<std::int64_t> remaining;
        std::atomic<std::uint64_t> resetAt;
        std::atomic<std::uint64_t> retryAt;   // 0: there is room; or kNeverAt
        std::atomic<std::uint64_t> override;  // what a record says, and its limit
        std::atomic<std::int64_t> cost;

        /// True if its log denies this check, too.
        bool denies(const Check& check, std::uint64_t nowMs) const;
        Verdict verdictOf(const Check& check, std::uint64_t nowMs) const;
    };

    /// Guarded by the sequence of its record.
    struct Heading {
        std::atomic<std::uint64_t> hash;
        std::atomic<std::uint64_t> until;
    };
    static_assert(sizeof(Heading) == kHeadingBytes);

    struct Record {
        Sequence sequence;
        std::atomic<std::uint32_t> generation;
        std::atomic<std::uint32_t> logs;
        std::atomic<std::uint64_t> dueAt;  // kNeverAt: not before it ends, or a request has claimed it
        Entry entries[kMostLogs];
        GuardedText<kLongestIdentity> identity;

        bool denies(std::span<const Check> checks, std::uint64_t nowMs) const;

        /// True if these checks, denied in the logs where `verdicts` says so, have no larger cost in each log where the
        /// record denies.
        bool isCoveredBy(std::span<const Check> checks, std::span<const Verdict> verdicts) const;

        /// True if the record denies them in each of these logs, at this time.
        bool covers(std::span<const Check> checks, std::span<const Verdict> verdicts, std::uint64_t nowMs) const;
    };
    static_assert(sizeof(Heading) + sizeof(Record) == kSlotBytes);

    using HeadingsOfSet = std::array<Heading, kWays>;
    using RecordsOfSet = std::array<Record, kWays>;

    /// A record and its heading.
    struct Slot {
        Heading& heading;
        Record& record;

        bool isOf(const Signature& asked) const {
            return heading.hash.load(std::memory_order_relaxed) == asked.identityHash &&
                   record.identity.is(asked.identity());
        }
    };

    /// A denial to be stored.
    struct Denial {
        const Signature& signature;
        std::span<const Check> checks;
        std::span<const Verdict> verdicts;
        std::uint32_t generation;
        std::uint64_t sentMs;
        std::uint64_t until;
    };

    std::optional<Slot> slotFor(const Denial& denial) const;
    bool denies(const Slot& slot, const Signature& signature, std::span<const Check> checks, std::uint64_t nowMs) const;
    auto setOf(const Signature& signature) const {
        HeadingsOfSet& headings = headings_.of(signature.identityHash);
        RecordsOfSet& records = records_[&headings - headings_.all().data()];
        return std::views::iota(std::size_t{0}, kWays) | std::views::transform([&headings, &records](std::size_t way) {
                   return Slot{headings[way], records[way]};
               });
    }
    Generation& generationOf(std::uint32_t log) const {
        return generations_[std::uint64_t{log} * generationCount_ >> 32];
    }

    Sequence::Writer self_ = 0;
    Generation* generations_ = nullptr;
    std::size_t generationCount_ = 0;
    Sets<HeadingsOfSet> headings_;
    RecordsOfSet* records_ = nullptr;  // as many
};

}  // namespace sliding_log
