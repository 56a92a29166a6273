#include "store.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "redis/keyspace.hpp"
#include "refusal.hpp"
#include "write_file.hpp"

namespace simulate {

namespace {

/// The hosts of Sentinels, behind the first server.
constexpr Host kSentinels = 100;

/// The other machine of a server with a name.
constexpr Host kOther = 50;

/// Of connections that name none.
constexpr std::string_view kUser = "default";

/// A connection that has read a password has used it by then.
constexpr Time kPasswordIsUsed = 500 * kMs;

}  // namespace

Store::Store(Kernel& kernel, Random random, StoreWitness& witness, const std::string& nativeModule,
             const StorePlan& plan, std::size_t keys, Time beginning, Host first, std::filesystem::path passwordFile)
    : kernel_(kernel),
      random_(random),
      witness_(witness),
      first_(first),
      keys_(keys),
      hasReplicas_(plan.replicas > 0),
      isReplaced_(plan.isReplaced),
      passwordFile_(std::move(passwordFile)) {
    if (plan.hasName) {
        name_ = "redis" + std::to_string(first) + ".test";
        kernel.names()[name_] = first;
    }
    if (plan.hasPassword) {
        passwords_ = {"a"};
        writeFile(passwordFile_, passwords_.front());
    }
    const std::size_t servers = plan.servers * (1 + plan.replicas) + (plan.isReplaced ? 1 : 0);
    const NativeVersion version = plan.hasNative ? NativeVersion::Current : NativeVersion::None;
    const Time wallAhead = beginning + random_.between(-5'000, 5'000) * kMs;  // a log that moves keeps its times
    for (std::size_t i = 0; i < servers; i++) {
        ServerSettings settings;
        settings.host = numbered(i);
        settings.nativeModule = nativeModule;
        settings.scripts = plan.scripts;
        auto machine =
            std::make_unique<Machine>(first + static_cast<Host>(i), wallAhead, random_.between(0, 100'000) * kSecond);
        auto redis = std::make_unique<RedisHost>(kernel, *machine, settings);
        redis->configure([this, version, servers, i, plan](Server& server) {
            server.setNative(version);
            server.setLeastReplicas(plan.needsReplica ? 1 : 0);
            server.setPasswords(std::string(kUser), passwords_);
            if (plan.isCluster()) {
                server.cluster() = Cluster::newView(first_, servers, plan.servers, i);
            }
        });
        parts_.push_back({std::move(machine), std::move(redis)});
    }
    if (plan.isCluster()) {
        cluster_ =
            std::make_unique<Cluster>(kernel, random_.branch(), witness, this->servers(), plan.servers, plan.lag);
    } else if (plan.replicas > 0) {
        sentinels_ = std::make_unique<Sentinels>(kernel, random_.branch(), witness, first + kSentinels,
                                                 parts_.front().redis->address());
        failOver_ =
            std::make_unique<FailOver>(kernel, random_.branch(), witness, *sentinels_, this->servers(), plan.lag);
    }
}

std::string Store::numbered(std::size_t server) const {
    return textOf(first_ + static_cast<Host>(server));
}

std::string Store::directives() const {
    const std::string text = directivesOfServers();
    return passwords_.empty() ? text : text + " password_file " + passwordFile_.filename().string() + ";";
}

std::string Store::directivesOfServers() const {
    if (sentinels_ != nullptr) {
        return sentinels_->directives();
    }
    if (!name_.empty()) {
        return "server " + name_ + ":6379;";
    }
    if (isReplaced_) {
        return "server " + numbered(used_) + ":6379;";
    }
    std::string text = cluster_ != nullptr ? "mode cluster; server" : "server";
    for (std::size_t i = 0; i < parts_.size(); i++) {
        text += " " + numbered(i) + ":6379";
    }
    return text + ";";
}

std::vector<RedisHost*> Store::servers() const {
    std::vector<RedisHost*> servers;
    for (const Part& part : parts_) {
        servers.push_back(part.redis.get());
    }
    return servers;
}

std::vector<Host> Store::hosts() const {
    std::vector<Host> hosts;
    for (const Part& part : parts_) {
        hosts.push_back(part.machine->host);
    }
    if (!name_.empty()) {
        hosts.push_back(first_ + kOther);
    }
    for (std::size_t i = 0; i < Sentinels::kCount; i++) {
        hosts.push_back(first_ + kSentinels + static_cast<Host>(i));
    }
    return hosts;
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
    switch (random_.below(cluster_ != nullptr ? 15 : name_.empty() ? 11 : 14)) {
        case 0:
            hasReplicas_ ? masterFails() : crash(false);
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
        case 7:
        case 8:
            refuse();
            break;
        case 9:
            evict();
            break;
        case 10:
            rotatePassword();
            break;
        default:
            if (cluster_ != nullptr) {
                const Random ofMove = random_.branch();
                cluster_->moveSlotOf(std::to_string(random_.below(keys_)), ofMove);
            } else {
                crash(true);
            }
            break;
    }
}

void Store::masterFails() {
    const bool dies = random_.once(2);
    if (cluster_ != nullptr) {
        dies ? cluster_->masterDies(random_) : cluster_->replaceMaster(random_);
    } else if (random_.once(3)) {
        sentinels_->die();
    } else {
        dies ? failOver_->masterDies() : failOver_->replaceMaster();
    }
}

/// `moves`: it is started on another machine.
void Store::crash(bool moves) {
    RedisHost& redis = any();
    if (!redis.isUp()) {
        return;
    }
    witness_.noted("Redis killed");
    witness_.disturbed();
    redis.crash();
    const bool keepsData = random_.once(2);
    kernel_.schedule().after(lasting(random_, 300 * kMs), [this, &redis, keepsData, moves] {
        witness_.noted(keepsData ? "Redis started, its data kept" : "Redis started, its data lost");
        if (moves) {
            move(redis);
        }
        redis.start(keepsData);
        if (!keepsData) {
            witness_.lost();
        }
    });
}

/// What is known of its name is true for a while yet.
void Store::move(RedisHost& redis) {
    Host& host = kernel_.names()[name_];
    host = host == first_ ? first_ + kOther : first_;
    witness_.noted("on another machine, " + textOf(host));
    witness_.disturbed();
    witness_.hasOtherAddress();
    redis.moveTo(host);
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

void Store::refuse() {
    RedisHost& redis = any();
    const Refusal refusal = drawRefusal(random_);
    witness_.noted("Redis refuses: " + refusal.text);
    witness_.disturbed();
    refusal.sets(redis.server(), true);
    kernel_.schedule().after(lasting(random_, 300 * kMs), [this, &redis, refusal] {
        witness_.noted("Redis refuses no more: " + refusal.text);
        refusal.sets(redis.server(), false);
    });
}

/// Another tenant of the same Redis needs its memory. Records stay, as if they had been set again at once.
void Store::evict() {
    Server& server = any().server();
    std::vector<std::string> names;
    for (const auto& [name, key] : server.keyspace().keys()) {
        if (!name.ends_with(":override")) {
            names.push_back(name);
        }
    }
    if (server.role() == Role::Master && !names.empty()) {
        const std::string& name = names[random_.below(names.size())];
        witness_.noted("evicted " + name);
        witness_.lost();
        server.removeKey(name);
    }
}

void Store::accept(std::vector<std::string> passwords) {
    passwords_ = std::move(passwords);
    for (const Part& part : parts_) {
        part.redis->server().setPasswords(std::string(kUser), passwords_);
    }
}

/// Clients log in again.
void Store::dropConnections() {
    witness_.noted("connections dropped");
    witness_.disturbed();
    for (const Part& part : parts_) {
        part.redis->dropConnections();
    }
}

/// The servers accept both passwords, then nodes have the new one, then the old one is void. If it is void at once, new
/// connections wait for the nodes.
void Store::rotatePassword() {
    if (passwords_.empty() || std::exchange(isRotating_, true)) {
        return;
    }
    const std::string old = passwords_.front();
    const std::string next = old + "a";
    const bool isVoid = random_.once(3);
    const auto noted = [this, isVoid](const char* what) {
        witness_.noted(what);
        if (isVoid) {
            witness_.disturbed();
        }
    };
    noted(isVoid ? "another password" : "a second password");
    accept(isVoid ? std::vector{next} : std::vector{old, next});
    kernel_.schedule().after(lasting(random_, 200 * kMs), [this, next, noted] {
        noted("nodes have the new password");
        writeFile(passwordFile_, next);
        kernel_.schedule().after(kPasswordIsUsed + lasting(random_, 200 * kMs), [this, next] {
            witness_.noted("the old password is void");
            accept({next});
            if (random_.once(2)) {
                dropConnections();
            }
            isRotating_ = false;
        });
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

Time Store::wallClock() const {
    return parts_.front().machine->wallAhead + kernel_.schedule().now();
}

bool Store::set(const std::string& key, const std::string& value, Time lifetime) {
    RedisHost* host = cluster_ != nullptr    ? cluster_->ownerOf(key)
                      : failOver_ != nullptr ? &failOver_->master()
                                             : parts_[used_].redis.get();
    if (host == nullptr || !host->isUp()) {
        return false;
    }
    host->setClock();
    Client client;
    client.isAuthenticated = true;
    std::string reply;
    const std::string ms = std::to_string(lifetime / kMs);
    const std::array<std::string_view, 5> words = {"SET", key, value, "PX", ms};
    host->server().execute(client, words, reply);
    return true;
}

}  // namespace simulate
