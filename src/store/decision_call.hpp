// A call that decides the requests of some batches, or reads the record of a log for such a decision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "redis/reply.hpp"
#include "servers/call.hpp"
#include "store/batch.hpp"
#include "store/plain_settings.hpp"

namespace sliding_log {

/// It refers to batches, never to requests.
class DecisionCall final : public OwnedCall<DecisionCall> {
  public:
    using OwnedCall::OwnedCall;

    bool isWanted() const override { return isWaitedFor(); }
    bool isWaitedFor() const override;
    std::size_t requests() const override;
    bool hasWritten(const redisReply& reply) const override {
        return !readsRecord && hasAdmitted(reply, batches.size());
    }

    /// While it reads a record, the text of that GET.
    std::string_view text() override;
    bool mayBeNative() const override { return Call::mayBeNative() && !readsRecord; }
    bool canBeShort() const override { return shortEnd > 0 && !leavesShort; }

    bool hasOverride() const {
        return variant == Variant::Override || variant == Variant::OfName || variant == Variant::PlainOverride;
    }

    std::vector<Batch*> batches;  // in the order of the reply
    std::size_t shortBegin = 0;   // where its short form begins in the command
    std::size_t shortEnd = 0;     // and where that ends; 0: it has none, or has it no more
    bool readsRecord = false;     // its GET of the record of its only log is sent in its place
    bool isTold = false;          // it has that record among its arguments

  private:
    friend class DecisionWriter;
    void reset(Algorithm newAlgorithm, std::uint16_t newHashSlot);
};

/// Writes one call at a time: begin(), add() while hasRoomFor(), finish().
class DecisionWriter {
  public:
    /// Begins a call to which `first` can be added, and others for which hasRoomFor() is true. `now` stamps the
    /// requests: milliseconds, or "" for the server's clock; it is used until finish().
    void begin(DecisionCall& call, const Batch& first, std::string_view now);
    bool hasRoomFor(const Batch& batch) const;

    /// The batch must have a request that waits.
    void add(Batch& batch);

    void finish();

    /// Writes a call that first reads the record of the only log of this batch: see readsRecord. tell() follows.
    static void writeReading(DecisionCall& call, Batch& batch);

    /// Writes the call of that batch again, with the text of the record.
    void tell(DecisionCall& call, std::string_view record, std::string_view now);

    /// Frees the memory that it keeps between calls.
    void freeMemory() { text_.freeMemory(); }

  private:
    /// How many logs each request of a plain call has, one or two; 0: the call is none.
    std::size_t plainLogs() const;
    void writePlainTwo();
    void noteForm(const Check& first, bool hasCosts);
    void writePlain(Batch& only);
    void write(Batch& batch, const std::string_view* record = nullptr);

    DecisionCall* call_ = nullptr;
    std::string_view now_;
    CallText text_;
    PlainSettings plain_;
    std::int64_t work_ = 0;  // of the call's batches
};

}  // namespace sliding_log
