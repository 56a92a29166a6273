// One EVALSHA on its way, and how it is written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/verdict.hpp"
#include "redis/connection.hpp"
#include "redis/resp.hpp"
#include "redis/script_arguments.hpp"
#include "store/group.hpp"
#include "store/list.hpp"

namespace sliding_log {

class Node;
struct Queued;  // to be sent when there is a connection, or again in a moment

/// A call knows groups, never a request. It lives in its store and is used again when its reply has come.
struct Call final : ReplyTarget, ListHook<Queued> {
    void replied(const redisReply* reply) override;

    /// True when somebody waits for what it says.
    bool isWaitedFor() const;
    bool isUndo() const { return groups.empty(); }

    /// True for an undo that changes nothing when it is done again: its entries have names.
    bool isRepeatable() const { return rowOf(algorithm).namesEntries; }

    /// How many requests ask in it.
    std::size_t requests() const;

    Node* node = nullptr;                  // it was last sent to
    Algorithm algorithm = Algorithm::Log;  // whose script it is
    std::string command;                   // as sent, kept for a repetition
    std::vector<Group*> groups;            // in the order of the reply; none for an undo
    std::vector<std::uint32_t> leftLogs;   // of an undo: hashes of those that its entries leave
    ngx_msec_t until = 0;                  // of an undo: when these have left their windows anyway
    bool isRepaid = false;                 // an undo that was kept, on its way now
    std::uint16_t slot = 0;                // of all its keys, in a cluster
    bool asking = false;                   // sent where the slot is on its way to
    bool isPart = false;                   // of a call that was sent before
    bool isOnWire = false;                 // the server may have it, and has not answered
    std::uint64_t sentNs = 0;              // when it was last sent
    std::uint64_t sequence = 0;            // of its latest sending on the connection
    unsigned scriptMisses = 0;
    unsigned repetitions = 0;  // for any other reason
};

/// Writes the commands of calls, one call at a time: begin(), add() what hasRoomFor() takes, finish().
class CallWriter {
  public:
    /// A call to which `first` can be added, and what hasRoomFor() lets in beside it. `now` stamps the requests:
    /// milliseconds, or "" for the server's clock; to be kept until finish().
    void begin(Call& call, const Group& first, std::string_view now) {
        begin(call, first.algorithm, first.slot);
        now_ = now;
    }
    bool hasRoomFor(const Group& group) const;

    /// The group has a request that waits.
    void add(Group& group);

    void finish();

    /// A whole call: takes back what these questions, decided at `takenMs`, logged at `loggedMs` under that unique
    /// name. `now` as for begin().
    void writeTakeBack(Call& call, std::span<const Question> questions, std::string_view unique, std::uint64_t loggedMs,
                       std::uint64_t takenMs, std::string_view now);

    /// Gives back what it keeps between calls.
    void freeMemory();

  private:
    /// As they are sent; both keep their memory.
    struct Texts {
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

    void begin(Call& call, Algorithm algorithm, std::uint16_t slot);
    bool isPlain() const;
    void write(Group& group);
    void writeCommand();

    Call* call_ = nullptr;
    std::string_view now_;
    Texts texts_;
    ScriptArguments<Texts> arguments_{texts_};
    std::int64_t work_ = 0;  // of the call's groups
};

}  // namespace sliding_log
