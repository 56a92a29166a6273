#include "cluster.hpp"

#include <algorithm>
#include <utility>

#include "redis/hash_slots.hpp"

namespace simulate {

Cluster::Cluster(Kernel& kernel, Random random, StoreWitness& witness, std::vector<RedisHost*> servers,
                 std::size_t masters, Time lag)
    : kernel_(kernel), random_(random), witness_(witness), servers_(std::move(servers)), shards_(masters) {
    for (std::size_t i = 0; i < masters && servers_.size() > masters; i++) {
        std::vector<RedisHost*> group;
        for (std::size_t server = i; server < servers_.size(); server += masters) {
            group.push_back(servers_[server]);
        }
        shards_[i].failOver =
            std::make_unique<FailOver>(kernel, random_.branch(), witness, *this, std::move(group), lag);
    }
}

ClusterView Cluster::newView(Host first, std::size_t servers, std::size_t masters, std::size_t self) {
    ClusterView view;
    view.self = static_cast<int>(self);
    for (std::size_t i = 0; i < servers; i++) {
        const std::string id = std::to_string(i);
        const int master = i < masters ? ClusterView::kNobody : static_cast<int>(i % masters);
        view.nodes.push_back(
            {std::string(40 - id.size(), '0') + id, textOf(first + static_cast<Host>(i)), 6379, master});
    }
    for (std::size_t slot = 0; slot < ClusterView::kSlots; slot++) {
        view.owner[slot] = static_cast<std::int16_t>(slot * masters / ClusterView::kSlots);
    }
    return view;
}

std::size_t Cluster::indexOf(const RedisHost& server) const {
    return static_cast<std::size_t>(std::ranges::find(servers_, &server) - servers_.begin());
}

std::size_t Cluster::masterOf(std::size_t shard) const {
    return shards_[shard].failOver == nullptr ? shard : indexOf(shards_[shard].failOver->master());
}

/// Others may not know yet who has it. None: the master that has got it died before its replicas knew.
std::optional<std::size_t> Cluster::shardOfSlot(std::uint16_t slot) const {
    for (std::size_t shard = 0; shard < shards_.size(); shard++) {
        if (view(masterOf(shard)).owner[slot] == static_cast<int>(masterOf(shard))) {
            return shard;
        }
    }
    return std::nullopt;
}

/// Nothing moves, and each master is up and known to be one.
bool Cluster::isSettled() const {
    for (std::size_t shard = 0; shard < shards_.size(); shard++) {
        const FailOver* failOver = shards_[shard].failOver.get();
        if (!servers_[masterOf(shard)]->isUp() || (failOver != nullptr && failOver->isUnderWay())) {
            return false;
        }
    }
    return !isMoving_;
}

RedisHost* Cluster::ownerOf(std::string_view key) const {
    const std::optional<std::size_t> shard = shardOfSlot(sliding_log::hashSlotOf(key));
    return isSettled() && shard ? servers_[masterOf(*shard)] : nullptr;
}

void Cluster::moveSlotOf(std::string_view key, Random random) {
    const std::uint16_t slot = sliding_log::hashSlotOf(key);
    const std::optional<std::size_t> shard = shardOfSlot(slot);
    if (!isSettled() || !shard) {
        return;
    }
    random_ = random;
    const std::size_t from = masterOf(*shard);
    const std::size_t to = masterOf((*shard + 1 + random_.below(shards_.size() - 1)) % shards_.size());
    isMoving_ = true;
    witness_.noted("slot " + std::to_string(slot) + " moves from " + textOf(servers_[from]->address().host) + " to " +
                   textOf(servers_[to]->address().host));
    view(to).importing[slot] = static_cast<int>(from);
    const Time pause = random_.once(3) ? 300 * kMs : 20 * kMs;
    kernel_.schedule().after(drawn(random_, 5 * kMs), [this, slot, from, to, pause] {
        view(from).migrating[slot] = static_cast<int>(to);
        handOver(slot, from, to, pause);
    });
}

void Cluster::handOver(std::uint16_t slot, std::size_t from, std::size_t to, Time pause) {
    kernel_.schedule().after(drawn(random_, pause), [this, slot, from, to, pause] {
        Server& source = servers_[from]->server();
        const std::vector<std::string> left = source.keysInSlot(slot, 1);
        if (!left.empty()) {
            source.migrate(left.front(), servers_[to]->server());
            handOver(slot, from, to, pause);
            return;
        }
        witness_.noted("slot " + std::to_string(slot) + " has moved");
        for (const std::size_t knows : {to, from}) {
            view(knows).importing.erase(slot);
            view(knows).migrating.erase(slot);
            view(knows).owner[slot] = static_cast<std::int16_t>(to);
        }
        isMoving_ = false;
        const std::uint64_t epoch = ++epochs_[slot];
        for (std::size_t other = 0; other < servers_.size(); other++) {
            kernel_.schedule().after(drawn(random_, 50 * kMs), [this, slot, shard = shardOf(to), other, epoch] {
                if (epoch == epochs_[slot]) {
                    giveSlot(other, slot, shard);
                }
            });
        }
    });
}

/// To the master of that shard, as this server knows it.
void Cluster::giveSlot(std::size_t server, std::uint16_t slot, std::size_t shard) const {
    ClusterView& its = view(server);
    for (std::size_t i = shard; i < servers_.size(); i += shards_.size()) {
        if (its.nodes[i].master == ClusterView::kNobody) {
            its.owner[slot] = static_cast<std::int16_t>(i);
        }
    }
}

void Cluster::masterDies(Random random) {
    shards_[random.below(shards_.size())].failOver->masterDies();
}

void Cluster::replaceMaster(Random random) {
    shards_[random.below(shards_.size())].failOver->replaceMaster();
}

/// A cluster serves all slots, or none.
void Cluster::missed(const RedisHost& master) {
    for (std::size_t i = 0; i < servers_.size(); i++) {
        view(i).isDown = servers_[i] != &master;
    }
}

void Cluster::chose(const RedisHost& master, const RedisHost& old) {
    const std::size_t now = indexOf(master);
    const std::size_t shard = shardOf(now);
    const std::uint64_t epoch = ++shards_[shard].epoch;
    learnMaster(now, shard, now, epoch);
    for (std::size_t i = 0; i < servers_.size(); i++) {
        if (servers_[i] != &old) {
            kernel_.schedule().after(lasting(random_, 100 * kMs),
                                     [this, i, shard, now, epoch] { learnMaster(i, shard, now, epoch); });
        }
    }
}

/// Some seconds long it waits for news before it serves.
void Cluster::cameBack(const RedisHost& server) {
    view(indexOf(server)).isDown = true;
}

void Cluster::demoted(const RedisHost& server) {
    const std::size_t shard = shardOf(indexOf(server));
    learnMaster(indexOf(server), shard, masterOf(shard), shards_[shard].epoch);
}

void Cluster::learnMaster(std::size_t server, std::size_t shard, std::size_t master, std::uint64_t epoch) {
    std::uint64_t& latest = learnt_[{server, shard}];
    if (epoch < latest) {
        return;
    }
    latest = epoch;
    ClusterView& its = view(server);
    its.isDown = false;
    for (std::size_t i = shard; i < servers_.size(); i += shards_.size()) {
        its.nodes[i].master = i == master ? ClusterView::kNobody : static_cast<int>(master);
    }
    for (std::int16_t& owner : its.owner) {
        owner = shardOf(static_cast<std::size_t>(owner)) == shard ? static_cast<std::int16_t>(master) : owner;
    }
}

}  // namespace simulate
