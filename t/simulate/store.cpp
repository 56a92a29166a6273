#include "store.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "redis/hash_slots.hpp"
#include "redis/keyspace.hpp"

namespace simulate {

namespace {

/// The hosts of Sentinels, behind the first server.
constexpr Host kSentinels = 100;

/// What each node of a new cluster believes: as many slots for each.
ClusterView newView(Host first, int servers, int self) {
    ClusterView view;
    view.self = self;
    for (int i = 0; i < servers; i++) {
        std::string id = std::to_string(i);
        view.nodes.push_back(
            {std::string(40 - id.size(), '0') + id, textOf(first + static_cast<Host>(i)), 6379, ClusterView::kNobody});
    }
    for (std::size_t slot = 0; slot < ClusterView::kSlots; slot++) {
        view.owner[slot] = static_cast<std::int16_t>(slot * static_cast<std::size_t>(servers) / ClusterView::kSlots);
    }
    return view;
}

}  // namespace

Store::Store(Kernel& kernel, Random random, StoreWitness& witness, const std::string& nativeModule,
             const StorePlan& plan, std::size_t keys, Time beginning, Host first)
    : kernel_(kernel), random_(random), witness_(witness), first_(first), keys_(keys) {
    const std::size_t servers = plan.servers + plan.replicas;
    const NativeVersion version = random_.once(2) ? NativeVersion::Current : NativeVersion::None;
    const Time wallAhead = beginning + random_.between(-5'000, 5'000) * kMs;  // a log that moves keeps its times
    for (std::size_t i = 0; i < servers; i++) {
        const auto number = static_cast<int>(i);
        ServerSettings settings;
        settings.host = numbered(number);
        settings.nativeModule = nativeModule;
        settings.scripts = random_.once(10) ? Scripts::ByLua : Scripts::ByNative;
        auto machine =
            std::make_unique<Machine>(first + static_cast<Host>(i), wallAhead, random_.between(0, 100'000) * kSecond);
        auto redis = std::make_unique<RedisHost>(kernel, *machine, settings);
        redis->configure([version, servers, number, first, isCluster = plan.isCluster()](Server& server) {
            server.setNative(version);
            if (isCluster) {
                server.cluster() = newView(first, static_cast<int>(servers), number);
            }
        });
        parts_.push_back({std::move(machine), std::move(redis)});
    }
    if (plan.replicas > 0) {
        std::vector<RedisHost*> hosts;
        for (const Part& part : parts_) {
            hosts.push_back(part.redis.get());
        }
        failOver_ = std::make_unique<FailOver>(kernel, random_.branch(), witness, std::move(hosts), first + kSentinels);
    }
}

std::string Store::numbered(int server) const {
    return textOf(first_ + static_cast<Host>(server));
}

std::string Store::directives() const {
    if (failOver_ != nullptr) {
        return failOver_->directives();
    }
    std::string text = parts_.size() > 1 ? "mode cluster; server" : "server";
    for (std::size_t i = 0; i < parts_.size(); i++) {
        text += " " + numbered(static_cast<int>(i)) + ":6379";
    }
    return text + ";";
}

Host Store::host(Random& random) {
    return parts_[random.below(parts_.size())].redis->address().host;
}

RedisHost& Store::any() {
    return *parts_[random_.below(parts_.size())].redis;
}

std::vector<std::string> Store::keys() {
    std::vector<std::string> names;
    for (const Part& part : parts_) {
        if (part.redis->server().role() == Role::Replica) {
            continue;  // its master tells it what has expired
        }
        part.redis->expire();
        for (const auto& [name, key] : part.redis->server().keyspace().keys()) {
            names.push_back(name);
        }
    }
    return names;
}

void Store::fault(Random random) {
    random_ = random;  // what other faults draw does not matter
    const bool isCluster = parts_.size() > 1 && failOver_ == nullptr;
    switch (random_.below(isCluster ? 9 : 7)) {
        case 0:
            failOver_ != nullptr ? failOver_->fault() : crash();
            break;
        case 1:
            stop();
            break;
        case 2:
            witness_.noted("SCRIPT FLUSH");
            any().server().scriptFlush();
            break;
        case 3:
            witness_.noted("native module changed");
            any().server().setNative(random_.once(2) ? NativeVersion::Current : NativeVersion::None);
            break;
        case 4:
            moveClock();
            break;
        case 5:
        case 6:
            witness_.noted("Redis busy");
            witness_.disturbed();
            any().beBusy(drawn(random_, 50 * kMs));
            break;
        default:
            moveSlot();
            break;
    }
}

void Store::crash() {
    RedisHost& redis = any();
    if (!redis.isUp()) {
        return;
    }
    witness_.noted("Redis killed");
    witness_.disturbed();
    redis.crash();
    const bool keepsData = random_.once(2);
    kernel_.schedule().after(lasting(random_, 300 * kMs), [this, &redis, keepsData] {
        witness_.noted(keepsData ? "Redis started, its data kept" : "Redis started, its data lost");
        redis.start(keepsData);
        if (!keepsData) {
            witness_.lost();
        }
    });
}

void Store::stop() {
    RedisHost& redis = any();
    witness_.noted("Redis stopped");
    witness_.disturbed();
    redis.stop();
    kernel_.schedule().after(lasting(random_, 300 * kMs), [this, &redis] {
        witness_.noted("Redis resumed");
        redis.resume();
    });
}

/// One clock for all, since a log that moves keeps its times.
void Store::moveClock() {
    const Time step = random_.between(-kMostClockMove, kMostClockMove);
    witness_.noted("clock of Redis set by " + std::to_string(step / kMs) + " ms");
    witness_.disturbed();
    witness_.clockMoved();
    for (const Part& part : parts_) {
        part.machine->wallAhead += step;
    }
}

ClusterView& Store::view(int server) {
    return *parts_[static_cast<std::size_t>(server)].redis->server().cluster();
}

/// Others may not know yet who has it.
int Store::ownerOf(std::uint16_t slot) {
    int owner = 0;
    while (view(owner).owner[slot] != owner) {
        owner++;
    }
    return owner;
}

Time Store::wallClock() const {
    return parts_.front().machine->wallAhead + kernel_.schedule().now();
}

bool Store::set(const std::string& key, const std::string& value, Time lifetime) {
    RedisHost* host = parts_.front().redis.get();
    if (failOver_ != nullptr) {
        host = &failOver_->master();
    } else if (parts_.size() > 1) {
        const std::size_t tag = key.find('{') + 1;
        const std::string_view tagged = std::string_view(key).substr(tag, key.find('}') - tag);
        const auto slot = static_cast<std::uint16_t>(sliding_log::crc16(tagged) % ClusterView::kSlots);
        host = parts_[static_cast<std::size_t>(ownerOf(slot))].redis.get();
    }
    if (isMoving_ || !host->isUp()) {
        return false;
    }
    host->setClock();
    Client client;
    std::string reply;
    const std::string ms = std::to_string(lifetime / kMs);
    const std::array<std::string_view, 5> words = {"SET", key, value, "PX", ms};
    host->server().execute(client, words, reply);
    return true;
}

/// The slot of a key moves to another server: key by key, while both know of it, then for all others, one after the
/// other.
void Store::moveSlot() {
    const bool areUp = std::ranges::all_of(parts_, [](const Part& each) { return each.redis->isUp(); });
    if (isMoving_ || !areUp) {
        return;
    }
    const auto slot =
        static_cast<std::uint16_t>(sliding_log::crc16(std::to_string(random_.below(keys_))) % ClusterView::kSlots);
    const int from = ownerOf(slot);
    const int to = (from + 1 + static_cast<int>(random_.below(parts_.size() - 1))) % static_cast<int>(parts_.size());
    isMoving_ = true;
    witness_.noted("slot " + std::to_string(slot) + " moves from " + numbered(from) + " to " + numbered(to));
    view(to).importing[slot] = from;
    kernel_.schedule().after(drawn(random_, 5 * kMs), [this, slot, from, to] {
        view(from).migrating[slot] = to;
        handOver(slot, from, to);
    });
}

void Store::handOver(std::uint16_t slot, int from, int to) {
    kernel_.schedule().after(drawn(random_, 20 * kMs), [this, slot, from, to] {
        Server& source = parts_[static_cast<std::size_t>(from)].redis->server();
        Server& target = parts_[static_cast<std::size_t>(to)].redis->server();
        const std::vector<std::string> left = source.keysInSlot(slot, 1);
        if (!left.empty()) {
            source.migrate(left.front(), target);
            handOver(slot, from, to);
            return;
        }
        witness_.noted("slot " + std::to_string(slot) + " has moved");
        for (const int knows : {to, from}) {
            view(knows).importing.erase(slot);
            view(knows).migrating.erase(slot);
            view(knows).owner[slot] = static_cast<std::int16_t>(to);
        }
        isMoving_ = false;
        const std::uint64_t epoch = ++epochs_[slot];
        for (std::size_t other = 0; other < parts_.size(); other++) {
            kernel_.schedule().after(drawn(random_, 50 * kMs), [this, slot, to, other, epoch] {
                if (epoch == epochs_[slot]) {
                    view(static_cast<int>(other)).owner[slot] = static_cast<std::int16_t>(to);
                }
            });
        }
    });
}

}  // namespace simulate
