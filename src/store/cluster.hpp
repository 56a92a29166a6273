// The nodes of a Redis Cluster, and the map of its slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "conf/settings.hpp"
#include "redis/backoff.hpp"
#include "redis/slot_map.hpp"
#include "redis/timer.hpp"
#include "store/node.hpp"
#include "store/topology.hpp"

namespace sliding_log {

class ClusterOwner : public NodeOwner {
  public:
    /// Another map of the slots is there, or none could be had: what waited for one is to be looked at again.
    virtual void mapChanged() = 0;

    /// The node is about to be destroyed: the groups that wait for it must leave.
    virtual void nodeLeaves(Node& node) = 0;

  protected:
    ~ClusterOwner() = default;
};

/// The map is asked of any node that is connected, first of one of the configuration. A redirect corrects one slot at
/// once, and has the whole map asked again, however many redirects come meanwhile; so does a node that is lost, until
/// the map names another in its place. A node is connected to when a question for one of its slots comes, and let go
/// of when the map no longer has it and nothing was sent there for a while.
class Cluster final : public Topology {
  public:
    Cluster(ClusterOwner& owner, StoreLog& log, const RedisSettings& settings);

    void start() override;
    bool canBeAsked(std::uint16_t slot) override;
    Node* nodeOf(std::uint16_t slot) override;
    Node* follow(const Redirect& redirect, const Node& from, bool forGood) override;
    void suspect() override { refresh(); }
    void nodeReady(Node& node) override;
    void nodeDown(Node& node) override;
    void forEachNode(const std::function<void(Node&)>& visit) override;

  private:
    /// A node, and who takes its answer to CLUSTER SLOTS.
    struct Member final : ReplyTarget {
        Member(Cluster& owner, const std::string& name, std::string hostName, std::unique_ptr<Locator> locator);
        void replied(const redisReply* reply) override { cluster.answered(*this, reply); }

        Cluster& cluster;
        std::string host;
        bool asked = false;  // for the map
        bool inMap = false;  // serves slots
        ngx_msec_t usedAt;   // when something last pointed to it
        Node node;
    };

    Member& memberAt(const std::string& host, int port, std::string_view address = {});
    Member& seed();
    std::list<Member>::iterator memberToAsk();
    void refresh();
    void answered(Member& member, const redisReply* reply);
    bool takeOver(const Member& from, const redisReply& reply);
    void noMap(const Member& member, const char* what, std::string_view cause);
    bool someNodeCanBeAsked();
    void sweep();

    ClusterOwner& owner_;
    StoreLog& log_;
    const RedisSettings& settings_;
    const ngx_msec_t keepUnmapped_;
    std::list<Member> members_;   // the one asked for the map last is the last
    std::vector<Member*> slots_;  // by slot; empty: no map yet
    std::size_t nextSeed_ = 0;
    bool wanted_ = true;    // the map is to be asked for
    bool failing_ = false;  // no map could be had, and there is none
    ngx_msec_t askedAt_ = 0;
    Backoff backoff_;
    Timer refresh_;
    Timer sweep_;
};

}  // namespace sliding_log
