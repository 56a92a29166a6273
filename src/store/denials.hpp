// Known denials: what Redis denied stays denied for up to a second, for all workers of the node, without asking again.
//
// Why that is right: a denied request is logged nowhere, so until the slot frees that the answer named only what takes
// entries out of a log can make room. What this node takes out ends its beliefs about that log at once, by a
// generation. What is done elsewhere (another node's refund, DEL, a fail-over) nobody tells: hence the second. Times
// are counted from before the question was sent, so they end early rather than late. Questions that ask anything else
// of the same log (a raised limit, another window) have another signature.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "limit/verdict.hpp"
#include "shared/seqlock.hpp"
#include "store/signature.hpp"

namespace sliding_log {

/// What the node knows of a question.
enum class Belief {
    None,   // Redis has to be asked
    Holds,  // it is denied
    Due     // it is denied, and who claims it asks for all
};

/// Memory of fixed size that processes share, read without a lock.
///
/// A slot is under a sequence: a reader that a writer has overtaken knows nothing. Four slots per hash; a new denial
/// takes the place of one that is over, else of the one that ends first. What a worker was writing when it was killed
/// is passed over.
///
/// Before the slots there are the generations, each of all logs whose keys' hashes fall on it. A log that shares one
/// with another is asked again for nothing, and no more.
class Denials {
  public:
    static constexpr std::size_t kSlotBytes = 512;
    static constexpr std::size_t kMostLogs = Signature::kMostLogs;
    static constexpr std::size_t kLongestSignature = 368;

    /// No belief is older, counted from the moment when its question was sent.
    static constexpr std::uint64_t kLastsMs = 1000;

    /// A belief of that age, whose slot would be taken for longer, is due: one request asks and the others stay denied,
    /// so that a blocked crowd makes one call and not one in every worker when the second is over. The rest of the
    /// second is time for the answer: fifty of a near Redis's round trips, half of the usual `timeout`. Being 5 % early
    /// costs as much more calls.
    static constexpr std::uint64_t kDueAfterMs = 950;

    Denials() = default;

    /// `memory`: zeroed, or a table that other processes use; of `bytes`, at least five slots', and aligned to 64.
    Denials(void* memory, std::size_t bytes);

    /// Unless None, the verdicts are as Redis told them, with less time to go.
    Belief find(const Signature& signature, std::uint64_t nowMs, std::span<Verdict> verdicts) const;

    /// True for one of those to whom it is due: who asks for all.
    bool claim(const Signature& signature, std::uint64_t nowMs);

    /// Changes whenever something leaves one of the signature's logs; for publish().
    std::uint32_t generation(const Signature& signature) const;

    /// Keeps a denial of a question that was sent at `sentMs`, when its logs had that generation. It is not kept where
    /// anything has left them since, or where nothing is to be kept: with `delay=` a request is admitted ahead of its
    /// slot. Nor is one of more logs, or of a longer signature, than a slot holds, nor where all slots are written.
    void publish(const Signature& signature, std::uint32_t sentGeneration, std::uint64_t sentMs,
                 std::span<const Question> questions, std::span<const Verdict> verdicts);

    /// Redis has admitted such a question.
    void forget(const Signature& signature);

    /// Something leaves the logs of these hashes, whatever was asked of them. To be called when that is sent, which
    /// ends what was learned before, and when it is answered or lost, which ends what was learned in between.
    void entriesLeave(std::span<const std::uint32_t> logs);

  private:
    static constexpr std::size_t kWays = 4;
    static constexpr std::size_t kShareOfGenerations = 16;  // of the memory

    using Generation = std::atomic<std::uint32_t>;

    struct Entry {
        std::atomic<std::int64_t> remaining;
        std::atomic<std::uint64_t> resetAt;
        std::atomic<std::uint64_t> retryAt;  // 0: has room, kNeverAt
    };

    struct Slot {
        Sequence sequence;
        std::atomic<std::uint32_t> generation;
        std::atomic<std::uint64_t> hash;
        std::atomic<std::uint64_t> until;
        std::atomic<std::uint64_t> dueAt;  // kNeverAt: not before it ends, or somebody asks
        std::atomic<std::uint64_t> logs;
        Entry entries[kMostLogs];
        GuardedText<kLongestSignature> signature;

        bool isOf(const Signature& asked) const {
            return hash.load(std::memory_order_relaxed) == asked.hash && signature.is(asked.text);
        }
    };
    static_assert(sizeof(Slot) == kSlotBytes);

    Slot* slotFor(const Signature& signature);
    std::span<Slot> setOf(const Signature& signature) const { return {slots_ + signature.hash % sets_ * kWays, kWays}; }
    Generation& generationOf(std::uint32_t log) const {
        return generations_[std::uint64_t{log} * generationCount_ >> 32];
    }

    Generation* generations_ = nullptr;
    std::size_t generationCount_ = 0;
    Slot* slots_ = nullptr;
    std::size_t sets_ = 0;
};

}  // namespace sliding_log
