// One socket to one Redis: hiredis's async API on nginx's event loop. It knows bytes and replies; what they mean,
// deadlines and when to connect again are its owner's.
#pragma once

#include <hiredis/async.h>

#include <string>
#include <string_view>

#include "ngx.hpp"
#include "redis/endpoint.hpp"
#include "redis/reply_arena.hpp"
#include "redis/tls.hpp"

namespace sliding_log {

/// Whoever waits for the reply to one command.
class ReplyTarget {
  public:
    /// Called exactly once per command that send() took; nullptr when the connection was lost before the reply.
    /// The reply is good until the return. No request may be run from here: hiredis and nginx would be re-entered.
    virtual void replied(const redisReply* reply) = 0;

  protected:
    ~ReplyTarget() = default;
};

class ConnectionOwner {
  public:
    /// The socket is connected; commands may be sent (also from inside this call).
    virtual void connected() = 0;

    /// The connection is gone and every command's replied(nullptr) was called. Called exactly once per connect()
    /// that returned true, never from inside a reply. open() may be called again at once.
    virtual void disconnected(std::string_view reason) = 0;

    /// The worker was told to quit: close() as soon as nobody waits for a reply.
    virtual void workerQuits() = 0;

  protected:
    ~ConnectionOwner() = default;
};

class Connection {
  public:
    /// `tls`: nullptr for a plain connection; else it outlives this.
    Connection(ConnectionOwner& owner, const Tls* tls, ngx_log_t* log) : owner_(owner), tls_(tls), log_(log) {}
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    /// Begins to connect; false, with error() set, when that fails at once. Only when not isOpen().
    bool open(const Endpoint& endpoint);
    bool isOpen() const { return context_ != nullptr; }
    std::string_view error() const { return reason_; }

    /// Queues one command in RESP; what is queued in one turn of the event loop leaves in one write. False: the
    /// connection is closing, and the target will not be called.
    bool send(std::string_view command, ReplyTarget& target);

    /// Sends SUBSCRIBE; behind it no other command follows: after the replies that are owed only messages come, each to
    /// the target, and nullptr once for each channel at the end. A refusal ends the connection, and is the reason.
    bool subscribe(std::string_view channel, ReplyTarget& target);

    /// How many replies are owed.
    std::size_t pending() const { return arena_.expected(); }

    /// Drops the connection: every pending target gets nullptr, then the owner disconnected(reason). From inside a
    /// reply this happens as soon as the reply's handling has returned.
    void close(std::string_view reason);

  private:
    struct Hooks;

    bool startTls(const Endpoint& endpoint);
    bool attach();
    void forgetTlsErrors() const;
    void onReadable();
    void onWritable();
    void armWrite();
    void awaitWritable();
    void disarmWrite();
    void released();
    void notifyIfGone();

    ConnectionOwner& owner_;
    const Tls* tls_;
    ngx_log_t* log_;
    redisAsyncContext* context_ = nullptr;
    SSL* session_ = nullptr;  // the context's; nullptr: plain
    ngx_connection_t* socket_ = nullptr;
    ReplyArena arena_;
    std::string reason_;
    bool writing_ = false;  // inside redisAsyncHandleWrite
    bool dying_ = false;    // in the destructor: nobody is told
};

}  // namespace sliding_log
