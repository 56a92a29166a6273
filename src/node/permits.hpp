// Permits: admissions of a key that Redis has logged before their requests arrive (prefetch=). All workers of the node
// use them up without another call.
//
// Why this is correct: the entries of a permit have the time at which it ends, by the clock of Redis. Its life is
// counted from before the call was sent, by a clock that runs while a host sleeps and is read at each use. So an entry
// leaves the window no earlier than the request that used it would have, and a log never has more entries than its
// limit in any window.
//
// A lot is the permits of one call. A node may have two lots of a key: the next one is asked for before the first one
// is used up or ends, so that requests need not wait for it. Lots are used in the order in which they end. Its entries
// are named `<name>`, `<name>~2` and so on; with a cost above 1, each permit has several. Permits are used from the
// last one down, so that those left over are the first ones and can be taken back together.
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "limit/check.hpp"
#include "node/permit.hpp"
#include "node/signature.hpp"
#include "shared/boot_time.hpp"
#include "shared/seqlock.hpp"
#include "shared/set_table.hpp"

namespace sliding_log {

/// The permits of a lot that were not used.
struct Leftover {
    std::uint32_t permits = 0;
    std::uint64_t loggedMs = 0;
    LotName name;
};

/// Memory of fixed size, shared by processes, without a lock. There are four records for each hash of a key; a key
/// beyond that replaces the one that was used least recently and has no permits, or is asked without permits. A record
/// that a worker was writing when it was killed is replaced first; the permits of its lot are lost. While a worker is
/// stopped that was writing, the key is asked without permits.
///
/// Times are in ms of bootTimeMs(). A signature is that of one check.
class Permits {
  public:
    static constexpr std::size_t kRecordBytes = 640;
    static constexpr std::size_t kLongestSignature = 384;
    static constexpr std::uint32_t kWays = 4;  // records of a set
    static constexpr std::uint32_t kLots = 2;  // of a record

    /// More than `prefetch=` may be.
    static constexpr std::uint32_t kMostPermits = (1U << 14) - 1;

    Permits() = default;

    /// `memory`: zeroed, or a table that other processes use; of `bytes`, at least four records', and aligned to 64.
    /// nullptr: there are no permits.
    /// `self`: the process that uses this object.
    Permits(void* memory, std::size_t bytes, pid_t self = getpid())
        : self_(static_cast<Sequence::Writer>(self)), sets_(memory, bytes) {}

    struct Lot {
        std::string_view name;
        std::uint32_t permits;
        std::uint64_t loggedMs;  // by the clock of the log
        std::int64_t entries;    // of all its permits
        std::int64_t remaining;  // of the limit, without its permits
        std::uint64_t resetAt;
        std::uint64_t endsAt;
    };

    using Clock = std::uint64_t (*)();

    /// Uses a permit of this check; none if there is none. The verdict is as that of Redis would be. The clock is read
    /// when the permit has been taken: this is the time of the admission. A permit that has ended admits nothing.
    std::optional<Permit> use(const Signature& signature, const Check& check, Verdict& verdict,
                              Clock clock = bootTimeMs);

    /// The request that used the permit is taken back. False if its lot has ended: then its entries are to be taken
    /// back. True: another request may use it, or the lot takes its entries back.
    bool giveBack(const Signature& signature, const Check& check, const Permit& permit);

    /// A call for this check is sent: how many permits it should ask for. They are the requests that were admitted in
    /// the latest life, at most `most`. 0 if another call asks for some, which this one does until `until` or grant().
    std::uint32_t wanted(const Signature& signature, std::uint64_t now, std::uint64_t lifeMs, std::uint32_t most,
                         std::uint64_t until);

    /// Calls have admitted this number of requests.
    void noteAdmitted(const Signature& signature, std::uint64_t now, std::uint64_t lifeMs, std::uint32_t requests);

    /// A request has used a permit, and this is the time to ask for the next lot: how many permits, 0 if another call
    /// asks. Sets how many are `held` still.
    std::uint32_t wantedAhead(const Signature& signature, std::uint64_t now, std::uint64_t lifeMs, std::uint32_t most,
                              std::uint64_t until, std::uint32_t& held);

    /// A call found this to remain, which all permits that were logged by `loggedBy`, a time of the log, do not count
    /// in. Returns how many of these the check has.
    std::uint32_t noteRemaining(const Signature& signature, std::uint64_t now, std::uint64_t loggedBy,
                                std::int64_t remaining);

    /// The call that asked has been answered, or has failed: another one may ask from `now` on.
    void endAsking(const Signature& signature, std::uint64_t now = 0);

    /// Adds a lot that was granted. Returns its number; 0 if the check has permits of two lots, or its record was
    /// replaced. `tookMs`: from the sending of the call to its reply.
    std::uint32_t grant(const Signature& signature, const Lot& lot, std::uint64_t now, std::uint64_t tookMs);

    /// Ends a lot and returns the number of permits that were not used.
    std::uint32_t end(const Signature& signature, std::uint32_t lot);

    /// Ends the lots of the check whose life has ended by then, if any.
    std::array<Leftover, kLots> endAll(const Signature& signature, std::uint64_t by);

    /// A call that was sent at `sentAt` found this number of entries in the log of this key in that store: if they are
    /// fewer than those of a lot that was granted before, the log is gone, and so are its permits.
    void noteEntries(std::uint64_t store, std::string_view key, std::int64_t entries, std::uint64_t sentAt);

  private:
    struct Held {
        std::atomic<std::uint64_t> permits;  // the number of the lot, and how many of its permits are left
        std::atomic<std::uint64_t> loggedMs;
        std::atomic<std::int64_t> entries;
        std::atomic<std::int64_t> remaining;
        std::atomic<std::uint64_t> resetAt;
        std::atomic<std::uint64_t> grantedAt;
        std::atomic<std::uint64_t> endsAt;
        std::atomic<std::uint32_t> granted;  // so many permits
        GuardedText<LotName::kLongest> name;
    };

    struct alignas(64) Record {
        Sequence sequence;
        std::atomic<std::uint32_t> log;     // the hash of its key
        std::atomic<std::uint32_t> hash;    // a part of that of its signature
        std::atomic<std::uint64_t> usage;   // see Usage
        std::atomic<std::uint64_t> usedAt;  // when a permit was used last
        std::atomic<std::uint64_t> askedUntil;
        std::atomic<std::uint32_t> tookMs;  // how long calls take that ask
        std::array<Held, kLots> lots;
        GuardedText<kLongestSignature> signature;

        /// The one that ends first.
        std::size_t firstLot() const {
            return lots[1].endsAt.load(std::memory_order_relaxed) < lots[0].endsAt.load(std::memory_order_relaxed) ? 1
                                                                                                                   : 0;
        }
        bool isOfLog(std::uint64_t store, std::string_view key) const;
        bool isOf(const Signature& asked) const {
            return hash.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(asked.hash) &&
                   signature.is(asked.text);
        }
    };
    static_assert(sizeof(Record) == kRecordBytes);
    using Set = std::array<Record, kWays>;

    std::span<Record> setOf(std::uint32_t log) const {
        return sets_.areNone() ? std::span<Record>() : std::span(sets_.of(log));
    }
    static void noteUse(Record& record, std::uint64_t now, std::uint64_t lifeMs, std::uint64_t requests);
    static bool isTimeToAsk(const Record& record, const Held& lot, std::uint32_t left, std::uint64_t now,
                            std::uint64_t lifeMs);
    std::optional<Permit> use(Record& record, std::uint64_t begin, Held& lot, const Signature& signature,
                              const Check& check, Verdict& verdict, Clock clock);
    static std::uint32_t wanted(Record& record, std::uint64_t now, std::uint64_t lifeMs, std::uint32_t most,
                                std::uint64_t until);
    static std::uint32_t lastingOf(const Held& lot, std::uint64_t now);
    static std::uint32_t end(Held& held, std::uint32_t lot);
    Record* find(const Signature& signature) const;
    Record* recordFor(const Signature& signature, std::uint64_t now);

    Sequence::Writer self_ = 0;
    Sets<Set> sets_;
};

}  // namespace sliding_log
