// Selects the server of a store for a slot.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "redis/slots.hpp"
#include "store/node.hpp"

namespace sliding_log {

class Topology {
  public:
    virtual ~Topology() = default;

    /// Connects before the first question.
    virtual void start() = 0;

    /// True if a question is sent at once, or as soon as its server is found and connected, which is expected.
    virtual bool canBeAsked(std::uint16_t slot) = 0;

    /// The server of the slot; nullptr if it is not known yet.
    virtual Node* nodeOf(std::uint16_t slot) = 0;

    /// The server that a redirect of `from` names; nullptr if the topology has no redirects. `forGood`: it serves the
    /// slot from now on.
    virtual Node* follow(const Redirect& redirect, const Node& from, bool forGood) = 0;

    /// A server replied that it cannot be asked now: the cluster may have changed.
    virtual void suspect() = 0;

    virtual void nodeReady(Node& node) = 0;
    virtual void nodeDown(Node& node) = 0;

    virtual void forEachNode(const std::function<void(Node&)>& visit) = 0;
};

/// One server, or the master that Sentinels name.
class SingleNode final : public Topology {
  public:
    template <typename... Arguments>
    explicit SingleNode(Arguments&&... arguments) : node_(std::forward<Arguments>(arguments)...) {}

    void start() override { node_.connect(); }
    bool canBeAsked(std::uint16_t) override { return node_.canBeAsked(); }
    Node* nodeOf(std::uint16_t) override { return &node_; }
    Node* follow(const Redirect&, const Node&, bool) override { return nullptr; }
    void suspect() override {}
    void nodeReady(Node&) override {}
    void nodeDown(Node&) override {}
    void forEachNode(const std::function<void(Node&)>& visit) override { visit(node_); }

  private:
    Node node_;
};

}  // namespace sliding_log
