// The scripts that a worker loads into one server, each once for all calls in flight. A script that the server refuses,
// or does not keep, is tried less and less often: each has up to 110,000 bytes.
#pragma once

#include <array>
#include <cstdint>

#include "limit/algorithm.hpp"
#include "ngx.hpp"
#include "redis/backoff.hpp"
#include "redis/connection.hpp"
#include "redis/timer.hpp"
#include "servers/call.hpp"

namespace sliding_log {

class PreparationOwner {
  public:
    /// The reply to a command that goes before a call; nullptr: none will arrive. `what`: for messages of an error.
    virtual void preparationReplied(const char* what, const redisReply* reply) = 0;

  protected:
    ~PreparationOwner() = default;
};

class ScriptLoads {
  public:
    ScriptLoads(PreparationOwner& owner, Connection& connection);

    /// A new connection: nothing is known.
    void forget();

    /// False: the server has refused it, or not kept it, a short while ago.
    bool mayLoad(Algorithm algorithm) const { return hasPassed(of(algorithm).againAt); }

    /// True if it was loaded for another call that was in flight.
    bool isLoadedFor(const Call& call) const { return call.sequence <= of(call.algorithm).loadedAt; }

    /// Loads the script of the call, unless that is so. `sent`: the number of calls so far.
    void load(const Call& call, std::uint64_t sent);

    /// It was loaded for a call again and again.
    void notKept(Algorithm algorithm) { of(algorithm).waitLonger(); }

    /// A call was executed.
    void found(Algorithm algorithm) { of(algorithm).backoff.reset(); }

  private:
    /// In ms.
    static constexpr std::uint64_t kAgainMin = kSpreadMs;
    static constexpr std::uint64_t kAgainMax = 10'000;

    struct Script final : ReplyTarget {
        void replied(const redisReply* reply) override;
        void waitLonger();

        PreparationOwner* owner = nullptr;
        std::uint64_t loadedAt = 0;  // the number of calls when it was last loaded
        Backoff backoff{kAgainMin, kAgainMax};
        ngx_msec_t againAt = 0;
    };

    Script& of(Algorithm algorithm) { return scripts_[static_cast<std::size_t>(algorithm)]; }
    const Script& of(Algorithm algorithm) const { return scripts_[static_cast<std::size_t>(algorithm)]; }

    Connection& connection_;
    std::array<Script, kAlgorithms.size()> scripts_;
};

}  // namespace sliding_log
