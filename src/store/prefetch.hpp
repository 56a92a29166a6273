// The permits of one store as one worker uses them: which a call asks for, which were granted to it, and which are left
// when their life ends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "limit/check.hpp"
#include "node/check_copies.hpp"
#include "node/permits.hpp"
#include "redis/reply.hpp"
#include "store/batch.hpp"
#include "store/work.hpp"

namespace sliding_log {

class Prefetch {
  public:
    /// Removes the entries of permits, which have this name and time, from a log. The cost of the check is their
    /// number; it need not outlive the call.
    using TakeBack =
        std::function<void(const Check& check, std::uint32_t permits, std::string_view name, std::uint64_t loggedMs)>;

    /// `store`: its identity, for signatures.
    Prefetch(Permits permits, std::uint64_t store, TakeBack takeBack)
        : permits_(permits), store_(store), takeBack_(std::move(takeBack)) {}

    /// True if requests with these checks may use permits: all of their limits have prefetch=.
    static bool isFor(std::span<const Check> checks);

    /// Uses a permit of each check; false if one of them has none. If true, the waiter's verdicts and permits are set.
    /// `unique`: a name that no other request has.
    bool use(std::span<const Check> checks, std::string_view unique, Waiter& waiter);

    /// The next lots are to be asked for.
    bool asksAhead() const { return !ahead_.empty(); }

    /// Sets what a call asks for that only asks for permits; false if there is none. `now`, `timeoutMs`: as of ask().
    bool takeAhead(AskedPermits& asked, std::uint64_t now, std::uint64_t timeoutMs);

    /// To be called once for each batch whose logs may have permits, before it is sent: decides how many it asks for.
    /// `now`: bootTimeMs() before the call is stamped; `timeoutMs`: how long the reply may take. Permits of some of its
    /// logs are returned by sendReturns(), since requests use those of all together.
    void ask(Batch& batch, std::uint64_t now, std::uint64_t timeoutMs);

    /// To be called between ask() and the sending of the call, which may need the room.
    void sendReturns();

    /// Notes what the reply says of the permits of these checks, and stores those that were granted. Returns their
    /// number. Tells the reply which others the node has.
    std::uint64_t learn(const AskedPermits& asked, std::span<const Check> checks, BatchReply& reply);

    /// The call that asked has failed.
    void fail(const AskedPermits& asked);

    /// A request that used this permit is taken back.
    void giveBack(const Check& check, const Permit& permit);

    /// Returns what is left of the lots whose life has ended, or of all that were granted to this worker.
    void endLots(bool all);

    /// ms until the first lot ends; none if there is no lot.
    std::optional<std::uint64_t> nextEndMs() const;

  private:
    struct GrantedLot {
        std::uint64_t endsAt;
        std::uint32_t number;
        std::uint64_t loggedMs;
        LotName name;
        CheckCopies check;

        bool operator<(const GrantedLot& other) const { return endsAt > other.endsAt; }  // the first one is on top
    };

    struct Return {
        CheckCopies check;
        Leftover leftover;
    };

    struct Ahead {
        CheckCopies check;
        LotName name;
    };

    const Signature& signatureOf(const Check& check);
    void noteAhead(const Check& check, std::string_view unique);
    void endLotsOf(const Check& check, const Signature& signature, std::uint64_t by);
    void takeBackEntries(const Check& check, const Permit& permit);
    void takeBack(const Check& check, std::uint32_t permits, std::string_view name, std::uint64_t loggedMs);

    Permits permits_;
    const std::uint64_t store_;
    TakeBack takeBack_;
    std::vector<GrantedLot> lots_;  // a heap
    std::vector<Return> returns_;
    std::vector<Ahead> ahead_;  // lots to be asked for at the end of this turn
    Signature latestSignature_;
};

}  // namespace sliding_log
