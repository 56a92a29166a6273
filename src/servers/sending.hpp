// The calls to one server: on its connection, or waiting until they can be sent. A call is sent in another form if the
// server lacks its script or its native module.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "metrics/counters.hpp"
#include "redis/connection.hpp"
#include "redis/store_error.hpp"
#include "redis/timer.hpp"
#include "servers/call.hpp"
#include "servers/native_forms.hpp"
#include "servers/script_loads.hpp"
#include "settings/settings.hpp"
#include "this_process.hpp"

namespace sliding_log {

class SendingOwner : public PreparationOwner {
  public:
    /// True if a call can be sent at once.
    virtual bool isReady() const = 0;

    /// A call shows that the native module is not there, or not permitted. True if scripts may decide instead.
    virtual bool nativeIsAbsent(std::string_view answer) = 0;

  protected:
    ~SendingOwner() = default;
};

class Sending final : ReplyTarget {
  public:
    Sending(SendingOwner& owner, Connection& connection, ServerCounters& counters, ngx_msec_t timeout,
            ngx_log_t* nginxLog);

    /// A new connection is made.
    void begin() {
        native_.forget();
        scripts_.forget();
        beganNs_ = nowNs();
    }
    void connected() { networkNs_ = nowNs() - beganNs_; }

    /// The connection has ended.
    void end() { scriptWait_.cancel(); }

    void nativeTold(bool isLoaded) { native_.told(isLoaded); }

    /// Sends it, or keeps it until there is a connection.
    void send(Call& call);

    /// What the reply tells the call; none if it does not get it, since it is sent again or is lost.
    std::optional<StoreError> meaningOf(Call& call, const redisReply& reply, StoreError error);

    /// Sends those that wait. Calls that cannot be sent now wait again.
    void sendWaiting();
    void loseWaiting();

    /// Removes one that waits and returns it; nullptr if there is none.
    Call* takeWaiting() { return waiting_.popFront(); }

  private:
    /// To ASKING.
    void replied(const redisReply* reply) override;

    bool leavesNative(Call& call, std::string_view answer);
    void sendIfWanted(Call& call);
    void repeatWithScript(Call& call);
    bool leavesLoadingToOthers(const Call& call) const;

    SendingOwner& owner_;
    Connection& connection_;
    ServerCounters& counters_;
    ngx_msec_t timeout_;          // of requests
    List<Call, Queued> waiting_;  // for a connection, or until a script may be loaded
    std::uint64_t sent_ = 0;
    std::uint64_t beganNs_ = 0;    // to connect
    std::uint64_t networkNs_ = 0;  // a round trip without the server's work: to connect
    ScriptLoads scripts_;
    NativeForms native_;
    Timer scriptWait_;
};

}  // namespace sliding_log
