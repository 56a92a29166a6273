// One EVALSHA in flight, or one command of the native module in its place, and its text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/check.hpp"
#include "redis/connection.hpp"
#include "redis/resp.hpp"
#include "redis/script_arguments.hpp"
#include "store/batch.hpp"
#include "store/lease.hpp"
#include "store/list.hpp"
#include "store/plain_settings.hpp"
#include "store/take_back.hpp"

namespace sliding_log {

class Server;
struct Queued;  // waits for a connection, or to be repeated

/// A call refers to batches, never to requests. It is owned by its store and reused after its reply.
struct Call final : ReplyTarget, ListHook<Queued> {
    /// Defined beside Server, which receives the reply.
    void replied(const redisReply* reply) override;

    /// True if a request waits for its reply.
    bool isWaitedFor() const;
    bool isTakeBack() const { return !takeBacks.empty(); }

    /// A call that is redirected more often than this in a row waits each time, since the servers disagree.
    static constexpr unsigned kMostRedirects = 5;

    /// The number of its requests.
    std::size_t requests() const;

    /// True if the native module may decide it.
    bool mayBeNative() const { return !leavesNative && !readsRecord && !isRelease; }

    /// What an older native module may not know of it; one of kNativeKinds.
    std::size_t nativeKind() const {
        return 4 * static_cast<std::size_t>(algorithm) + (owes ? 3 : hasOverride ? 2 : hasPlainCosts ? 1 : 0);
    }
    static constexpr std::size_t kNativeKinds = 4 * kAlgorithms.size();

    /// Its text for the native module, or as a script, as isNative and isShort say; valid until the next one. Nothing
    /// but the beginning differs, and a short call ends earlier. While it reads a record, the text of that GET.
    std::string_view text();
    std::string_view from(std::string_view beginning);

    /// Of take-backs that owe something: its text says how long ago their requests ended.
    void tellEnds();

    /// Until text() has written another form of it.
    bool canBeShort() const { return shortEnd > 0 && !leavesShort; }

    Server* server = nullptr;              // that it was last sent to
    Algorithm algorithm = Algorithm::Log;  // selects the script
    std::string command;                   // kept to be repeated: room for the beginning, and all behind it
    std::size_t words = 0;                 // of the command
    std::size_t keys = 0;                  // the number of keys, if the command tells it
    std::size_t shortBegin = 0;            // where its short form begins in the command
    std::size_t shortEnd = 0;              // and where that ends; 0: it has none, or has it no more
    bool isNative = false;                 // as it was last sent
    bool isShort = false;                  // the same: a short call of the native module
    bool leavesNative = false;             // the native module could not decide it: a script does
    bool leavesShort = false;              // the native module knows no short calls
    std::vector<Batch*> batches;           // in the order of the reply; none for take-backs
    std::vector<TakeBack*> takeBacks;      // in the order of the reply
    bool isRelease = false;                // of take-backs: a ZREM
    std::size_t members = 0;               // of it
    bool isRenewal = false;                // of leases: never repeated, since some may have ended
    std::uint64_t renewed = 0;             // of a renewal in a cluster: the hash of its only log
    bool owes = false;                     // of take-backs: one adds something
    bool isStamped = false;                // of take-backs: their time is that of nginx
    std::size_t argumentsAt = 0;           // of take-backs: where those behind the keys begin in the command
    bool isPaced = false;                  // its take-backs count among those on the wire to its server
    std::uint16_t hashSlot = 0;            // of all its keys, in a cluster
    bool asking = false;                   // sent to the server that imports the slot
    bool isPart = false;                   // part of a call that was sent before
    bool hasPlainCosts = false;            // it is plain, and tells the costs of its requests
    bool hasOverride = false;              // a check has override=on
    bool readsRecord = false;              // its GET of the record of its only log is sent in its place
    bool isTold = false;                   // it has that record among its arguments
    bool isOnWire = false;                 // sent, no reply yet
    std::uint64_t sentNs = 0;              // when it was last sent
    std::uint64_t tookNs = 0;              // until its latest reply
    std::uint64_t sequence = 0;            // of its latest sending on the connection
    unsigned scriptMisses = 0;
    unsigned repetitions = 0;  // for any other reason
};

/// Writes the commands of calls, one call at a time: begin(), add() while hasRoomFor(), finish().
class CallWriter {
  public:
    /// Begins a call to which `first` can be added, and others for which hasRoomFor() is true. `now` stamps the
    /// requests: milliseconds, or "" for the server's clock; it is used until finish().
    void begin(Call& call, const Batch& first, std::string_view now) {
        begin(call, first.algorithm, first.hashSlot);
        now_ = now;
    }
    bool hasRoomFor(const Batch& batch) const;

    /// The batch must have a request that waits.
    void add(Batch& batch);

    void finish();

    /// Writes a call that first reads the record of the only log of this batch: see Call::readsRecord. tell() follows.
    static void writeReading(Call& call, Batch& batch);

    /// Writes the call of that batch again, with the text of the record.
    void tell(Call& call, std::string_view record, std::string_view now);

    /// Writes the part of a call that takes back what these checks, decided at `takenMs`, logged at `loggedMs` under
    /// this unique name.
    void writeTakeBack(TakeBack& takeBack, std::span<const Check> checks, std::string_view unique,
                       std::uint64_t loggedMs, std::uint64_t takenMs);

    /// The part of a ZREM that removes what the check, of algorithm=inflight, has logged.
    static void writeRelease(TakeBack& takeBack, const Check& check, std::string_view unique);

    /// Writes a whole call of such parts, all of the same logs. `now` as for begin().
    static void writeTakeBacks(Call& call, std::span<TakeBack* const> takeBacks, std::string_view now);

    /// Writes a renewal: renew() for the leases of one log after the other, all of one hash slot, then finishRenewal().
    void beginRenewal(Call& call, const Check& first);
    void renew(std::span<Lease* const> leases);
    void finishRenewal() { writeCommand(); }

    /// Frees the memory that it keeps between calls.
    void freeMemory();

  private:
    /// As they are sent; both keep their memory.
    struct Texts {
        void clear() {
            keys.clear();
            arguments.clear();
            keyCount = argumentCount = 0;
        }
        void key(std::string_view text) {
            appendArgument(keys, text);
            keyCount++;
        }
        void argument(std::string_view text) {
            appendArgument(arguments, text);
            argumentCount++;
        }

        std::string keys;
        std::string arguments;
        std::size_t keyCount = 0;
        std::size_t argumentCount = 0;
    };

    void begin(Call& call, Algorithm algorithm, std::uint16_t hashSlot);
    static void reset(Call& call, Algorithm algorithm, std::uint16_t hashSlot);
    bool isPlain() const;
    void writePlain(Batch& only);
    void write(Batch& batch, const std::string_view* record = nullptr);
    void writeCommand();

    Call* call_ = nullptr;
    std::string_view now_;
    Texts texts_;
    ScriptArguments<Texts> arguments_{texts_};
    PlainSettings plain_;
    std::int64_t work_ = 0;  // of the call's batches
};

}  // namespace sliding_log
