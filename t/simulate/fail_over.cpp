#include "fail_over.hpp"

#include <algorithm>
#include <sstream>

#include "redis/keyspace.hpp"
#include "redis/resp.hpp"
#include "redis/server.hpp"

namespace simulate {

namespace {

/// Replicas are behind by so much at most.
constexpr Time kLag = 5 * kMs;

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
                   std::vector<RedisHost*> servers)
    : kernel_(kernel), random_(random), witness_(witness), voters_(voters), servers_(std::move(servers)) {
    master().server().keepEffects(true);
    for (std::size_t i = 1; i < servers_.size(); i++) {
        servers_[i]->server().setRole(Role::Replica);
        servers_[i]->server().setMaster(textOf(master().address().host), master().address().port);
    }
    replicate();
}

/// The replicas get what the master has done since the last time.
void FailOver::replicate() {
    if (master().isUp()) {
        catchUp();
        if (!isUnderWay_) {
            master().server().forgetEffectsBefore(master().server().offset());
        }
    }
    kernel_.schedule().after(1 + static_cast<Time>(random_.below(kLag)), [this] { replicate(); });
}

void FailOver::catchUp() {
    Server& from = master().server();
    for (RedisHost* to : servers_) {
        if (to == servers_[master_] || !to->isUp() || to->server().role() == Role::Master) {
            continue;
        }
        to->setClock();
        while (to->server().offset() < from.offset()) {
            to->server().apply(from.effects()[to->server().offset() - from.firstOffset()]);
        }
        if (random_.once(100)) {
            compare(*to);
        }
    }
}

/// The replica has done all that its master has, so it has the same keys.
void FailOver::compare(RedisHost& replica) {
    const Keyspace& its = replica.server().keyspace();
    for (const auto& [name, key] : master().server().keyspace().keys()) {
        const Keyspace::Key* copy = its.find(name);
        if (copy == nullptr || copy->expiry != key.expiry || textOf(copy->value) != textOf(key.value)) {
            witness_.failed("a replica has another " + name);
        }
    }
    if (its.size() != master().server().keyspace().size()) {
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

/// A replica becomes the master. The old one believes for a while that it still is, or again when it starts.
std::size_t FailOver::promote() {
    isUnderWay_ = true;
    const std::size_t old = master_;
    master_ = (old + 1 + random_.below(servers_.size() - 1)) % servers_.size();
    const Address address = master().address();
    witness_.noted(textOf(address.host) + " is the master");
    witness_.disturbed();
    witness_.divided();
    master().server().setRole(Role::Master);
    master().server().keepEffects(true);
    for (std::size_t i = 0; i < servers_.size(); i++) {
        if (i != master_ && i != old) {
            servers_[i]->setClock();
            servers_[i]->server().copyFrom(master().server());
            servers_[i]->server().setMaster(textOf(address.host), address.port);
        }
    }
    voters_.chose(master(), *servers_[old]);
    return old;
}

void FailOver::startOld(std::size_t old) {
    constexpr Time kUntilDemoted = 2500 * kMs;
    kernel_.schedule().after(lasting(random_, 500 * kMs), [this, old] {
        witness_.noted("the old master has started");
        servers_[old]->start(random_.once(2));
        voters_.cameBack(*servers_[old]);
    });
    kernel_.schedule().after(kUntilDemoted + lasting(random_, 200 * kMs), [this, old] { demote(old); });
}

void FailOver::replaceMaster() {
    if (isUnderWay_ || !master().isUp() || !voters_.mayChoose()) {
        return;
    }
    if (voters_.mayHandOver() && random_.once(2)) {
        witness_.noted("the master hands over");
        catchUp();
        demote(promote());
        return;
    }
    witness_.noted("fail-over");
    kernel_.schedule().after(lasting(random_, 200 * kMs), [this, old = promote()] { demote(old); });
}

void FailOver::demote(std::size_t old) {
    witness_.noted("the old master is a replica");
    witness_.disturbed();
    witness_.united();
    const Address address = master().address();
    servers_[old]->setClock();
    Server& server = servers_[old]->server();
    server.setRole(Role::Replica);
    server.keepEffects(false);
    server.setMaster(textOf(address.host), address.port);
    server.copyFrom(master().server());
    voters_.demoted(*servers_[old]);
    if (random_.once(2)) {
        servers_[old]->dropConnections();
    }
    isUnderWay_ = false;
}

}  // namespace simulate
