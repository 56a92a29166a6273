// One command to a server that its reply ends: an EVALSHA, or a command of the native module in its place. Its kind
// says what becomes of it: a decision, a take-back or a renewal.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "limit/algorithm.hpp"
#include "list.hpp"
#include "redis/connection.hpp"
#include "redis/resp.hpp"
#include "redis/script_arguments.hpp"
#include "redis/store_error.hpp"

namespace sliding_log {

class Server;
struct Queued;  // waits for a connection, or to be repeated

/// It is owned by its kind's room of the store, and reused after answered() or lost(): exactly one of them is called
/// for each time that it was sent.
class Call : public ReplyTarget, public ListHook<Queued> {
  public:
    // ---- its kind

    /// Its reply, and the error that prevents what it is for; None: no error.
    virtual void answered(const redisReply& reply, StoreError error) = 0;

    /// No reply will arrive.
    virtual void lost() = 0;

    /// The server leaves, and the call still waits to be sent to it.
    virtual void leftBehind() = 0;

    /// False: nobody needs it any more, so it is not sent later.
    virtual bool isWanted() const = 0;

    /// True if a request waits for its reply.
    virtual bool isWaitedFor() const { return false; }

    /// False: it is never sent again as it is, but written anew.
    virtual bool isRepeatable() const { return true; }

    /// The number of its requests.
    virtual std::size_t requests() const { return 0; }

    /// True if this reply tells that something was logged.
    virtual bool hasWritten(const redisReply&) const { return false; }

    // ---- its text

    /// To be called each time before it is sent: brings times in its text up to date.
    virtual void prepare() {}

    /// Its text for the native module, or as a script, as isNative and isShort say; valid until the next one. Nothing
    /// but the beginning differs, and a short call ends earlier.
    virtual std::string_view text();

    /// True if the native module may decide it.
    virtual bool mayBeNative() const { return !leavesNative; }

    /// True until text() has written another form of it.
    virtual bool canBeShort() const { return false; }

    /// What an older native module may not know.
    enum class Variant : std::uint8_t {
        Usual,
        PlainCosts,
        PlainOptions,
        PlainOverride,
        PlainTwo,
        Override,
        OfName,
        Ahead,
        Owes
    };

    /// A plain call with costs, options or two limits, or of a counter or a bucket.
    bool isPlainWithMore() const { return variant >= Variant::PlainCosts && variant <= Variant::PlainTwo; }

    /// Of algorithm and variant; one of kNativeKinds.
    std::size_t nativeKind() const {
        return kVariants * static_cast<std::size_t>(algorithm) + static_cast<std::size_t>(variant);
    }
    static constexpr std::size_t kVariants = static_cast<std::size_t>(Variant::Owes) + 1;
    static constexpr std::size_t kNativeKinds = kVariants * kAlgorithms.size();

    /// A call that is redirected more often than this in a row waits each time, since the servers disagree.
    static constexpr unsigned kMostRedirects = 5;

    /// Bytes of the command for what stands in front of the keys: at most the beginning of a short call, with four
    /// numbers of 20 digits.
    static constexpr std::size_t kRoom = 128;

    // ---- as its server sees it

    /// Defined beside Server, which receives the reply.
    void replied(const redisReply* reply) final;

    Server* server = nullptr;              // that it was last sent to
    Algorithm algorithm = Algorithm::Log;  // selects the script
    Variant variant = Variant::Usual;
    std::uint16_t hashSlot = 0;  // of all its keys, in a cluster
    std::string command;         // kept to be repeated: room for the beginning, and all behind it
    std::size_t words = 0;       // of the command
    std::size_t keys = 0;        // the number of keys, if the command tells it
    bool isNative = false;       // as it was last sent
    bool isShort = false;        // the same: a short call of the native module
    bool leavesNative = false;   // the native module could not decide it: a script does
    bool leavesShort = false;    // the native module knows no short calls
    bool followsAsk = false;     // sent to the server that imports the slot
    bool isPart = false;         // part of a call that was sent before
    bool isOnWire = false;       // sent, no reply yet
    std::uint64_t sentNs = 0;    // when it was last sent
    std::uint64_t tookNs = 0;    // until its latest reply
    std::uint64_t sequence = 0;  // of its latest sending on the connection
    unsigned scriptMisses = 0;
    unsigned repetitions = 0;  // for any other reason

  protected:
    virtual ~Call() = default;

    /// All but its text is as in a new one.
    void reset(Algorithm newAlgorithm, std::uint16_t newHashSlot);

    /// The command with this beginning.
    std::string_view from(std::string_view beginning);

    class Beginning;
};

/// Has the calls of one kind.
template <typename Kind>
class CallOwner {
  public:
    virtual void answered(Kind& call, const redisReply& reply, StoreError error) = 0;
    virtual void lost(Kind& call) = 0;
    virtual void leftBehind(Kind& call) { lost(call); }

  protected:
    ~CallOwner() = default;
};

/// A kind of calls, each of which tells its owner what becomes of it.
template <typename Kind>
class OwnedCall : public Call {
  public:
    explicit OwnedCall(CallOwner<Kind>& owner) : owner_(owner) {}

    void answered(const redisReply& reply, StoreError error) final { owner_.answered(self(), reply, error); }
    void lost() final { owner_.lost(self()); }
    void leftBehind() final { owner_.leftBehind(self()); }

  private:
    Kind& self() { return static_cast<Kind&>(*this); }

    CallOwner<Kind>& owner_;
};

/// Writes to memory that is large enough.
class Call::Beginning {
  public:
    std::string_view view() const { return {text_.data(), length_}; }
    void append(std::string_view text) { length_ += text.copy(text_.data() + length_, text_.size() - length_); }

  private:
    std::array<char, kRoom> text_;
    std::size_t length_ = 0;
};

/// The keys and the arguments of one call at a time, as they are sent; it keeps its memory.
class CallText {
  public:
    void clear();
    ScriptArguments<CallText>& arguments() { return arguments_; }

    /// Writes all into the call, behind the room for what text() writes.
    void writeTo(Call& call) const;

    /// Frees the memory that it keeps between calls.
    void freeMemory();

    void key(std::string_view text) {
        appendArgument(keys_, text);
        keyCount_++;
    }
    void argument(std::string_view text) {
        appendArgument(words_, text);
        wordCount_++;
    }
    const std::string& keys() const { return keys_; }
    const std::string& words() const { return words_; }
    std::size_t keyCount() const { return keyCount_; }
    std::size_t wordCount() const { return wordCount_; }

  private:
    std::string keys_;
    std::string words_;
    std::size_t keyCount_ = 0;
    std::size_t wordCount_ = 0;
    ScriptArguments<CallText> arguments_{*this};
};

}  // namespace sliding_log
