// Selects the server of a store for a hash slot.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "redis/hash_slots.hpp"
#include "servers/server.hpp"

namespace sliding_log {

class Topology {
  public:
    virtual ~Topology() = default;

    /// Connects before the first check.
    virtual void start() = 0;

    /// True if a check is sent at once, or as soon as its server is found and connected, which is expected.
    virtual bool canBeAsked(std::uint16_t hashSlot) = 0;

    /// The server of the hash slot; nullptr if it is not known yet.
    virtual Server* serverOf(std::uint16_t hashSlot) = 0;

    /// The server that a redirect of `from` names; nullptr if the topology has no redirects. `forGood`: it serves the
    /// slot from now on.
    virtual Server* follow(const Redirect& redirect, const Server& from, bool forGood) = 0;

    /// A server replied that it cannot be asked now: the cluster may have changed.
    virtual void suspect() = 0;

    virtual void serverReady(Server& server) = 0;
    virtual void serverDown(Server& server) = 0;

    virtual void forEachServer(const std::function<void(Server&)>& visit) = 0;
};

/// One server, or the master that Sentinels name.
class SingleServer final : public Topology {
  public:
    template <typename... Arguments>
    explicit SingleServer(Arguments&&... arguments) : server_(std::forward<Arguments>(arguments)...) {}

    void start() override { server_.connect(); }
    bool canBeAsked(std::uint16_t) override { return server_.canBeAsked(); }
    Server* serverOf(std::uint16_t) override { return &server_; }
    Server* follow(const Redirect&, const Server&, bool) override { return nullptr; }
    void suspect() override {}
    void serverReady(Server&) override {}
    void serverDown(Server&) override {}
    void forEachServer(const std::function<void(Server&)>& visit) override { visit(server_); }

  private:
    Server server_;
};

}  // namespace sliding_log
