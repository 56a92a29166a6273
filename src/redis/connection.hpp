// One socket to one Redis: hiredis's async API on nginx's event loop. It handles bytes and replies; their meaning,
// deadlines and reconnects belong to its owner.
#pragma once

#include <hiredis/async.h>

#include <string>
#include <string_view>

#include "ngx.hpp"
#include "redis/endpoint.hpp"
#include "redis/reply_arena.hpp"
#include "redis/tls.hpp"

namespace sliding_log {

/// The receiver of the reply to one command.
class ReplyTarget {
  public:
    /// Called exactly once per command that send() accepted; nullptr if the connection was lost before the reply. The
    /// reply is valid until the return. Must not run requests: hiredis and nginx would be re-entered.
    virtual void replied(const redisReply* reply) = 0;

  protected:
    ~ReplyTarget() = default;
};

class ConnectionOwner {
  public:
    /// The socket is connected; commands may be sent (also from inside this call).
    virtual void connected() = 0;

    /// The connection has ended and replied(nullptr) was called for every command. Called exactly once per open() that
    /// returned true, never from inside a reply. open() may be called again at once.
    virtual void disconnected(std::string_view reason) = 0;

    /// The worker has to quit: close() as soon as no reply is waited for.
    virtual void workerQuits() = 0;

  protected:
    ~ConnectionOwner() = default;
};

class Connection {
  public:
    /// `tls`: nullptr for a plain connection; otherwise it must outlive this object.
    Connection(ConnectionOwner& owner, const Tls* tls, ngx_log_t* log) : owner_(owner), tls_(tls), log_(log) {}
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    /// Begins to connect; false, with error() set, if that fails at once. Only if not isOpen().
    bool open(const Endpoint& endpoint);
    bool isOpen() const { return context_ != nullptr; }
    std::string_view error() const { return reason_; }

    /// Queues one command in RESP; the commands of one event-loop turn are sent in one write. False: the connection is
    /// closing, and the target will not be called.
    bool send(std::string_view command, ReplyTarget& target);

    /// Sends SUBSCRIBE, as the last command: after the outstanding replies only messages arrive, each for the target,
    /// and nullptr once for each channel at the end. A refusal ends the connection and is the reason.
    bool subscribe(std::string_view channel, ReplyTarget& target);

    /// The number of outstanding replies.
    std::size_t pending() const { return arena_.expected(); }

    /// Closes the connection: every pending target gets nullptr, then the owner disconnected(reason). Inside a reply
    /// this happens as soon as its handler has returned.
    void close(std::string_view reason);

  private:
    struct Hooks;

    bool startTls(const Endpoint& endpoint);
    bool attach();
    void forgetTlsErrors() const;
    void onReadable();
    void onWritable();
    bool writeAtOnce();
    void armWrite();
    void awaitWritable();
    void disarmWrite();
    void released();
    void notifyIfGone();

    ConnectionOwner& owner_;
    const Tls* tls_;
    ngx_log_t* log_;
    redisAsyncContext* context_ = nullptr;
    SSL* session_ = nullptr;  // owned by the context; nullptr: plain
    ngx_connection_t* socket_ = nullptr;
    ReplyArena arena_;
    std::string reason_;
    bool writing_ = false;  // inside redisAsyncHandleWrite
    bool dying_ = false;    // in the destructor: nothing is reported
};

}  // namespace sliding_log
