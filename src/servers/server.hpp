// One Redis server as used by one worker: its connection, its state, and the calls in flight.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "metrics/counters.hpp"
#include "redis/backoff.hpp"
#include "redis/connection.hpp"
#include "redis/credentials.hpp"
#include "redis/discovery.hpp"
#include "redis/handshake.hpp"
#include "redis/store_error.hpp"
#include "redis/timer.hpp"
#include "servers/call.hpp"
#include "servers/probe.hpp"
#include "servers/reauthentication.hpp"
#include "servers/sending.hpp"
#include "servers/server_health.hpp"
#include "servers/silence.hpp"
#include "servers/store_log.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

class Server;

/// Of the owner of a server: unknown to that.
struct ServerAttachment {
    virtual ~ServerAttachment() = default;
};

class ServerOwner {
  public:
    /// The counters of the server with this name.
    virtual ServerCounters& counters(std::string_view server) = 0;

    /// What the owner keeps for a server, from its beginning to its end.
    virtual std::unique_ptr<ServerAttachment> attach() = 0;

    /// It has answered a call of this slot, which is told next.
    virtual void answered(const Server& server, std::uint16_t hashSlot, StoreError error) = 0;

    /// From now on calls are sent at once.
    virtual void serverReady(Server& server) = 0;

    /// No calls can be sent for a while, and those that waited for the connection are lost.
    virtual void serverDown(Server& server) = 0;

    /// The worker has to quit; repeated when a connection ends in the meantime.
    virtual void workerQuits() = 0;

    /// True if the worker quits and no request waits for a reply: a lost connection is not made again.
    virtual bool isLeaving() const = 0;

    /// Of all servers of the store.
    virtual Credentials& credentials() = 0;

  protected:
    ~ServerOwner() = default;
};

/// States: Idle -> Connecting -> Handshake -> Ready; Down after a failure, until the back-off timer connects again.
/// While the server is trusted (at start, and when it closed a connection that had worked), calls wait for the
/// connection within their deadline and are sent in one write with the handshake. Replies to the handshake arrive
/// first; if they are not accepted, the other replies are ignored. After a failure calls are refused at once until a
/// probe is answered in time. If replies arrive, but too late for requests, it is Late: the connection stays, and
/// probes follow the calls in flight. When another server has taken its place, it is Leaving until the calls in flight
/// are answered, and then connects to that server.
class Server final : ConnectionOwner,
                     HandshakeOwner,
                     DiscoveryTarget,
                     PasswordWaiter,
                     ProbeOwner,
                     ReauthenticationOwner,
                     SendingOwner,
                     ServerHealthOwner {
  public:
    using Attachment = ServerAttachment;

    /// `name`: for messages. The discovery returns the address to connect to.
    Server(ServerOwner& owner, StoreLog& log, const RedisSettings& settings, std::string_view name,
           std::unique_ptr<Discovery> discovery);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    void connect();
    void connectIfIdle();

    /// True if a call is sent at once, or as soon as the server is connected, which is expected.
    bool canBeAsked();

    /// True if a call is sent at once.
    bool isReady() const override { return state_ == State::Ready || state_ == State::Handshake; }
    bool isDown() const { return state_ == State::Down; }

    /// Nobody has asked it since it was found: it is not connected.
    bool isIdle() const { return state_ == State::Idle; }

    /// True if it is ready and has answered on this connection.
    bool hasReplied() const { return state_ == State::Ready; }

    /// True if it is ready and no request has timed out since it last answered one in time.
    bool isWell() const { return state_ == State::Ready && !silence_.hasTimeouts(); }

    /// Sends the call, or keeps it until there is a connection; the call is told of its end, and must not be used until
    /// then.
    void send(Call& call);

    /// Sends a command that is not a call; false if there is no connection. The target is called once.
    bool send(std::string_view command, ReplyTarget& target);

    /// The server accepts no writes: it looks for the server that does and sends calls to it. If that one accepts
    /// no writes either, on_error decides until the next attempt.
    void leaveAsReadOnly();

    /// Its name refers to another server: it connects to that one and sends calls to it.
    void hasMoved(std::string_view reason) override;

    /// A request that was asked at `askedAt` has timed out.
    void timedOut(ngx_msec_t askedAt);

    /// After several timeouts in a row no request waits until a probe is answered, nor for a connection that is not
    /// ready within the timeout of a request. The connection is closed unless replies arrive.
    void giveUpIfSilent();

    /// A reply that the scripts never return: replies may not match calls any more, so all others of this connection
    /// are ignored.
    void closeAsUnreliable();

    /// Closes the connection if no reply is outstanding.
    void closeIfUnused();

    /// Authenticates an open connection again if there is another password.
    void authenticateAgain();

    /// Removes a call that waits for the connection and returns it; nullptr if there is none.
    Call* takeWaiting() { return sending_.takeWaiting(); }

    Attachment& attachment() { return *attachment_; }

    std::string_view name() const { return name_; }

    /// As messages call it: where it is, for a master that Sentinels name.
    std::string_view shownName() const { return shownName_; }
    ServerCounters& counters() { return counters_; }

    /// To be called about once a second: publishes the state of the server, and asks for its health when that is due.
    void tick();

  private:
    friend class Call;
    enum class State { Idle, Connecting, Handshake, Ready, Late, Leaving, Down };

    void passwordKnown() override { discovery_->discover(*this); }
    void discovered(const Endpoint& endpoint) override;
    void notDiscovered(std::string_view reason) override { becomeDown(reason); }
    void connected() override;
    void disconnected(std::string_view reason) override;
    void workerQuits() override { owner_.workerQuits(); }
    void handshakeDone() override;
    void handshakeRefused(std::string_view reason) override { connection_.close(reason); }
    void policyTold(std::string_view policy) override { health_.policyTold(shownName_, policy); }
    void healthTold() override { closeIfLeft(); }
    void probeAnswered(ngx_msec_t tookMs) override;
    void probeRefused(std::string_view reason) override;
    void authenticatedAgain() override;
    void authenticationRefused(std::string_view answer) override;
    void preparationReplied(const char* what, const redisReply* reply) override;
    bool nativeIsAbsent(std::string_view answer) override;
    void nativeTold(bool isLoaded, std::string_view answer) override;
    void roleForbidden(std::string_view answer) override { log_.roleForbidden(shownName_, answer); }

    void replied(Call& call, const redisReply* reply);
    void becomeReady();
    void becomeDown(std::string_view reason);
    void becomeLate();
    void beUnavailable(std::string_view reason);
    void tryAgain();
    void beLeaving();
    void closeIfLeft();

    ServerOwner& owner_;
    StoreLog& log_;
    const RedisSettings& settings_;
    std::string name_;
    std::string shownName_;
    std::unique_ptr<Discovery> discovery_;
    ServerCounters& counters_;
    ServerHealth health_;
    Handshake handshake_;
    Reauthentication reauthentication_;
    Sending sending_;
    Silence silence_;
    Probe probe_{*this};
    Backoff backoff_;
    State state_ = State::Idle;
    bool isExpectedUp_ = true;    // the server worked when last used
    bool hasLostCalls_ = false;   // the connection ended before their replies
    bool tellsReturn_ = false;    // the error log has that calls were lost
    bool moved_ = false;          // the discovery has another server: connect to that one next
    bool refusesWrites_ = false;  // since its last refusal it has accepted no write
    ngx_msec_t readySince_ = 0;
    ngx_msec_t unreadySince_ = 0;  // since when it is Connecting, Handshake or Leaving

    std::unique_ptr<Attachment> attachment_;
    Timer connectDeadline_;
    Timer reconnect_;

    Connection connection_;  // last, so that it is destroyed first: it reports the calls
};

}  // namespace sliding_log
