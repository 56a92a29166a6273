// Which of a store's servers is asked for what.
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

    /// Connects ahead of the first question.
    virtual void start() = 0;

    /// True when what is asked now is sent now, or as soon as its server is found and connected, which is expected.
    virtual bool canBeAsked(std::uint16_t slot) = 0;

    /// The server of the slot; nullptr while it is not known.
    virtual Node* nodeOf(std::uint16_t slot) = 0;

    /// The server that a redirect of `from` names; nullptr where there are no redirects. `forGood`: it serves the
    /// slot from now on.
    virtual Node* follow(const Redirect& redirect, const Node& from, bool forGood) = 0;

    /// A server answered that it cannot be asked now: the cluster may have changed.
    virtual void suspect() = 0;

    virtual void nodeReady(Node& node) = 0;
    virtual void nodeDown(Node& node) = 0;

    virtual void forEachNode(const std::function<void(Node&)>& visit) = 0;
};

/// One server, or the one at a time that Sentinels name.
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
