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

#include "redis/addresses.hpp"
#include "redis/slot_map.hpp"
#include "redis/timer.hpp"
#include "settings/settings.hpp"
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

/// The map is asked of one source after the other until one gives it: of the nodes that are connected, then of those
/// that can be connected to, then of those of the configuration. MOVED corrects one slot at once, and has the whole map
/// asked again, however many redirects come meanwhile; so does a node that is lost, until the map names another in its
/// place. A search begins a second after the latest question at the earliest, at a moment that differs from worker to
/// worker. A node is connected to when a question for one of its slots comes, and let go of when the map no longer has
/// it and nothing was sent there for a while.
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
        Member(Cluster& owner, const std::string& name, std::string hostName, std::unique_ptr<Addresses> places);
        void replied(const redisReply* reply) override { cluster.answered(*this, reply); }

        Cluster& cluster;
        std::string host;
        bool asked = false;          // for the map, and has not answered
        std::uint64_t question = 0;  // the number of its latest question; 0: none
        ngx_msec_t askedAt = 0;      // when that was
        bool isSlow = false;         // it did not connect in time in this search
        bool inMap = false;          // serves slots
        bool hasNewAddress = false;  // its connection, if any, may be to the former one
        ngx_msec_t usedAt;           // when something last pointed to it
        Addresses& addresses;        // the node's
        Node node;
    };

    Member& memberAt(const std::string& host, int port, std::string_view address = {});
    Member& seed();
    void refresh();
    void timeIsUp();
    void search();
    void askNext();
    Member* nextSource();
    static bool mayBeAsked(const Member& member);
    void ask(Member& member);
    void tellFailing();
    void answered(Member& member, const redisReply* reply);
    bool takeOver(const Member& from, const redisReply& reply);
    void goToNewAddresses();
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
    bool searching_ = false;
    ngx_msec_t askedAt_ = 0;              // when the latest search began, or asked
    std::size_t seedsLeft_ = 0;           // that the search has not come to yet
    Member* source_ = nullptr;            // whose map, or connection, it waits for
    std::uint64_t questions_ = 0;         // for the map, so far
    std::uint64_t answeredQuestion_ = 0;  // whose answer the map is
    Timer refresh_;                       // searching: the source's time is up; else the next search
    Timer sweep_;
};

}  // namespace sliding_log
