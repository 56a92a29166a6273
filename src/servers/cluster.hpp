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
#include "servers/server.hpp"
#include "servers/topology.hpp"
#include "settings/settings.hpp"

namespace sliding_log {

class ClusterOwner : public ServerOwner {
  public:
    /// There is a new map of the slots, or none could be obtained: batches that waited for it have to be tried again.
    virtual void mapChanged() = 0;

    /// The node is about to be destroyed: batches that wait for it must leave it.
    virtual void serverLeaves(Server& server) = 0;

  protected:
    ~ClusterOwner() = default;
};

/// The map is requested from one source after the other until one returns it: from connected nodes, then from nodes
/// that can be connected, then from the nodes of the configuration. MOVED corrects one slot at once and causes one
/// request of the whole map, however many redirects arrive in the meantime; so does a lost node, until the map has
/// another in its place. A search begins at least a second after the latest request, at a time that differs between
/// workers. A node is connected when there is a check for one of its slots, and dropped when the map no longer has
/// it and nothing has named it for a while.
class Cluster final : public Topology {
  public:
    Cluster(ClusterOwner& owner, StoreLog& log, const RedisSettings& settings);

    void start() override;
    bool canBeAsked(std::uint16_t hashSlot) override;
    Server* serverOf(std::uint16_t hashSlot) override;
    Server* follow(const Redirect& redirect, const Server& from, bool forGood) override;
    void suspect() override { refresh(); }
    void serverReady(Server& server) override;
    void serverDown(Server& server) override;
    void forEachServer(const std::function<void(Server&)>& visit) override;

  private:
    /// A node, and the target of its reply to CLUSTER SLOTS.
    struct Member final : ReplyTarget {
        Member(Cluster& owner, const std::string& name, std::string hostName, std::unique_ptr<Addresses> newAddresses);
        void replied(const redisReply* reply) override { cluster.slotMapReplied(*this, reply); }

        Cluster& cluster;
        std::string host;
        bool asked = false;            // for the map, no reply yet
        std::uint64_t mapRequest = 0;  // the number of its latest request; 0: none
        ngx_msec_t askedAt = 0;        // time of that request
        bool isSlow = false;           // it did not connect in time in this search
        bool inMap = false;            // serves slots
        bool hasNewAddress = false;    // its connection, if any, may be to the former one
        ngx_msec_t usedAt;             // last time that a map, a redirect or a search named it
        Addresses& addresses;          // the node's
        Server server;
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
    void slotMapReplied(Member& member, const redisReply* reply);
    bool takeOver(const Member& from, const redisReply& reply);
    void goToNewAddresses();
    bool someServerCanBeAsked();
    void sweep();

    ClusterOwner& owner_;
    StoreLog& log_;
    const RedisSettings& settings_;
    const ngx_msec_t keepUnmapped_;
    std::list<Member> members_;   // the one that was asked for the map last is at the end
    std::vector<Member*> slots_;  // by slot; empty: no map yet
    std::size_t nextSeed_ = 0;
    bool wanted_ = true;    // the map has to be requested
    bool failing_ = false;  // there is no map, and none could be obtained
    bool searching_ = false;
    ngx_msec_t askedAt_ = 0;                // when the latest search began, or sent a request
    std::size_t seedsLeft_ = 0;             // that the search has not tried yet
    Member* source_ = nullptr;              // whose map or connection the search waits for
    std::uint64_t mapRequests_ = 0;         // requests of the map, so far
    std::uint64_t answeredMapRequest_ = 0;  // the request that returned the map
    Timer refresh_;                         // timeout of the source during a search, otherwise the next search
    Timer sweep_;
};

}  // namespace sliding_log
