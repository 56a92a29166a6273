#include "fail_over.hpp"

#include <algorithm>
#include <sstream>

#include "redis/keyspace.hpp"
#include "redis/resp.hpp"
#include "redis/server.hpp"

namespace simulate {

namespace {

/// min-replicas-max-lag 1: in whole seconds, by acknowledgements of each second.
constexpr Time kGoodFor = 1500 * kMs;

/// Until the others agree that the master is down.
constexpr Time kDownAfter = kSecond;

std::string textOf(const Value& value) {
    std::ostringstream out;
    if (const auto* bytes = std::get_if<std::string>(&value)) {
        out << *bytes;
    } else if (const auto* members = std::get_if<Zset>(&value)) {
        for (std::size_t i = 0; i < members->size(); i++) {
            out << members->at(i).member << '=' << scoreText(members->at(i).score) << ' ';
        }
    } else if (const auto* hash = std::get_if<Hash>(&value)) {
        std::vector<Hash::Field> fields = hash->fields();
        std::ranges::sort(fields);
        for (const auto& [name, text] : fields) {
            out << name << '=' << text << ' ';
        }
    }
    return out.str();
}

}  // namespace

FailOver::FailOver(Kernel& kernel, Random random, StoreWitness& witness, Voters& voters,
                   std::vector<RedisHost*> servers, Time lag)
    : kernel_(kernel),
      random_(random),
      witness_(witness),
      voters_(voters),
      servers_(std::move(servers)),
      lag_(lag),
      replicas_(servers_.size()) {
    master().server().keepEffects(true);
    for (std::size_t i = 1; i < servers_.size(); i++) {
        servers_[i]->server().setRole(Role::Replica);
        servers_[i]->server().setMaster(textOf(master().address().host), master().address().port);
    }
    replicate();
}

/// The replicas get what their masters have done since the last time.
void FailOver::replicate() {
    catchUp();
    countReplicas();
    if (!isUnderWay_) {
        forgetEffects();
    }
    kernel_.schedule().after(1 + static_cast<Time>(random_.below(static_cast<std::uint64_t>(lag_))),
                             [this] { replicate(); });
}

void FailOver::catchUp() {
    for (std::size_t i = 0; i < servers_.size(); i++) {
        RedisHost& to = *servers_[i];
        RedisHost& master = *servers_[replicas_[i].follows];
        if (&to == &master || !to.isRunning() || !master.isRunning()) {
            continue;
        }
        replicas_[i].heard = kernel_.schedule().now();
        const Server& from = master.server();
        to.setClock();
        while (to.server().offset() < from.offset()) {
            to.server().apply(from.effects()[to.server().offset() - from.firstOffset()]);
        }
        if (random_.once(100)) {
            compare(to, master);
        }
    }
}

/// Those that all replicas have.
void FailOver::forgetEffects() {
    std::uint64_t offset = master().server().offset();
    for (const RedisHost* server : servers_) {
        offset = std::min(offset, server->server().offset());
    }
    master().server().forgetEffectsBefore(offset);
}

void FailOver::countReplicas() {
    const auto isGood = [this](const Replica& replica) { return kernel_.schedule().now() - replica.heard < kGoodFor; };
    for (std::size_t i = 0; i < servers_.size(); i++) {
        const auto follows = [&](std::size_t other) { return other != i && replicas_[other].follows == i; };
        std::size_t good = 0;
        for (std::size_t other = 0; other < servers_.size(); other++) {
            good += follows(other) && isGood(replicas_[other]) ? 1 : 0;
        }
        servers_[i]->server().setGoodReplicas(good);
    }
}

/// The replica has done all that its master has, so it has the same keys.
void FailOver::compare(const RedisHost& replica, const RedisHost& master) {
    const Keyspace& its = replica.server().keyspace();
    for (const auto& [name, key] : master.server().keyspace().keys()) {
        const Keyspace::Key* copy = its.find(name);
        if (copy == nullptr || copy->expiry != key.expiry || textOf(copy->value) != textOf(key.value)) {
            witness_.failed("a replica has another " + name);
        }
    }
    if (its.size() != master.server().keyspace().size()) {
        witness_.failed("a replica has other keys than its master");
    }
}

void FailOver::masterDies() {
    if (isUnderWay_ || !master().isUp() || !voters_.mayChoose()) {
        return;
    }
    isUnderWay_ = true;
    witness_.noted("master killed");
    witness_.disturbed();
    master().crash();
    kernel_.schedule().after(kDownAfter, [this] {
        voters_.missed(master());
        kernel_.schedule().after(drawn(random_, 300 * kMs), [this] { startOld(promote()); });
    });
}

/// One that runs, if there is any.
std::size_t FailOver::drawReplica() {
    std::vector<std::size_t> all;
    std::vector<std::size_t> running;
    for (std::size_t i = 0; i < servers_.size(); i++) {
        if (i != master_) {
            all.push_back(i);
            if (servers_[i]->isRunning()) {
                running.push_back(i);
            }
        }
    }
    const std::vector<std::size_t>& from = running.empty() ? all : running;
    return from[random_.below(from.size())];
}

/// A replica becomes the master. The old one believes for a while that it still is, or again when it starts; the others
/// follow it for a while.
std::size_t FailOver::promote() {
    isUnderWay_ = true;
    const std::size_t old = master_;
    master_ = drawReplica();
    replicas_[master_].follows = master_;
    lostFrom_ = master().server().offset();
    const Address address = master().address();
    witness_.noted(textOf(address.host) + " is the master");
    witness_.disturbed();
    witness_.divided();
    dividedAt_ = kernel_.schedule().now();
    master().server().setRole(Role::Master);
    master().server().keepEffects(true);
    for (std::size_t i = 0; i < servers_.size(); i++) {
        if (replicas_[i].follows == old && i != old) {
            kernel_.schedule().after(lasting(random_, 200 * kMs), [this, i] { followMaster(i); });
        }
    }
    countReplicas();
    voters_.chose(master(), *servers_[old]);
    return old;
}

/// By a full synchronization.
void FailOver::followMaster(std::size_t server) {
    if (server == master_ || replicas_[server].follows == master_) {
        return;
    }
    const Address address = master().address();
    replicas_[server] = {master_, kernel_.schedule().now()};
    servers_[server]->setClock();
    Server& replica = servers_[server]->server();
    replica.setRole(Role::Replica);
    replica.keepEffects(false);
    replica.copyFrom(master().server());
    replica.setMaster(textOf(address.host), address.port);
    countReplicas();
}

/// What the old master has done since its replica has taken its place.
void FailOver::lose(std::size_t old) {
    const Server& server = servers_[old]->server();
    for (std::uint64_t offset = std::max(lostFrom_, server.firstOffset()); offset < server.offset(); offset++) {
        for (const std::vector<std::string>& command : server.effects()[offset - server.firstOffset()].commands) {
            witness_.lostWrite(command, dividedAt_);
        }
    }
    lostFrom_ = server.offset();
}

void FailOver::startOld(std::size_t old) {
    constexpr Time kUntilDemoted = 2500 * kMs;
    lose(old);
    kernel_.schedule().after(lasting(random_, 500 * kMs), [this, old] {
        witness_.noted("the old master has started");
        for (std::size_t i = 0; i < servers_.size(); i++) {
            if (i != old) {
                followMaster(i);  // not one that comes back empty
            }
        }
        const bool keepsData = random_.once(2);
        servers_[old]->start(keepsData);
        if (!keepsData) {
            servers_[old]->server().keepEffects(true);
            lostFrom_ = 0;
        }
        voters_.cameBack(*servers_[old]);
    });
    kernel_.schedule().after(kUntilDemoted + lasting(random_, 200 * kMs), [this, old] { demote(old); });
}

void FailOver::replaceMaster() {
    if (isUnderWay_ || !master().isUp() || !voters_.mayChoose()) {
        return;
    }
    if (voters_.mayHandOver() && servers_[drawReplica()]->isRunning() && random_.once(2)) {
        witness_.noted("the master hands over");
        catchUp();
        demote(promote());
        return;
    }
    witness_.noted("fail-over");
    const std::size_t old = promote();
    kernel_.schedule().after(lasting(random_, 200 * kMs), [this, old] { demote(old); });
}

void FailOver::demote(std::size_t old) {
    witness_.noted("the old master is a replica");
    witness_.disturbed();
    lose(old);
    witness_.united(dividedAt_);
    for (std::size_t i = 0; i < servers_.size(); i++) {
        followMaster(i);
    }
    voters_.demoted(*servers_[old]);
    if (random_.once(2)) {
        servers_[old]->dropConnections();
    }
    isUnderWay_ = false;
}

}  // namespace simulate
