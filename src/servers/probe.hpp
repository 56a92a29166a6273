// A call without logs, the first on a connection to a server that was in trouble. It writes nothing, so it does not
// have to wait for the handshake.
#pragma once

#include <string_view>

#include "redis/connection.hpp"

namespace sliding_log {

class ProbeOwner {
  public:
    /// It was answered, as a server answers that can decide; `tookMs`: how late.
    virtual void probeAnswered(ngx_msec_t tookMs) = 0;

    /// The server does not decide, and says why.
    virtual void probeRefused(std::string_view reason) = 0;

  protected:
    ~ProbeOwner() = default;
};

class Probe final : ReplyTarget {
  public:
    explicit Probe(ProbeOwner& owner) : owner_(owner) {}

    /// A new connection.
    void forget() { wasSent_ = false; }

    void send(Connection& connection);
    bool wasSent() const { return wasSent_; }

  private:
    void replied(const redisReply* reply) override;

    ProbeOwner& owner_;
    bool wasSent_ = false;  // on this connection
    ngx_msec_t sentAt_ = 0;
};

}  // namespace sliding_log
