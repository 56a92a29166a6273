#include "servers/cluster.hpp"

#include <algorithm>
#include <utility>

#include "redis/reply.hpp"
#include "redis/resp.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

/// The minimum time between two requests of the map, in ms; also the time between them while a node of the map is lost.
/// A random part of the jitter is added, since all workers have the same reason to ask at the same time.
constexpr ngx_msec_t kAskEvery = 1000;
constexpr ngx_msec_t kJitter = 100;

/// A source that takes longer than this to connect or to answer, in ms, is skipped.
constexpr ngx_msec_t kLeastPatience = 100;
constexpr ngx_msec_t kMostPatience = 1000;

/// A node outside the map is kept for at least this time, in ms, after it was last named: slots may be moving to it.
constexpr ngx_msec_t kKeepUnmapped = 2000;

}  // namespace

Cluster::Member::Member(Cluster& owner, const std::string& name, std::string hostName,
                        std::unique_ptr<Addresses> newAddresses)
    : cluster(owner),
      host(std::move(hostName)),
      usedAt(nowMs()),
      addresses(*newAddresses),
      server(owner.owner_, owner.log_, owner.settings_, name, std::move(newAddresses)) {}

Cluster::Cluster(ClusterOwner& owner, StoreLog& log, const RedisSettings& settings)
    : owner_(owner),
      log_(log),
      settings_(settings),
      keepUnmapped_(std::max(kKeepUnmapped, settings.timeout)),
      nextSeed_(randomNumber()),  // distributes workers over the nodes
      refresh_(
          this, [](void* self) { static_cast<Cluster*>(self)->timeIsUp(); }, Timer::Kind::Chore, log.nginxLog()),
      sweep_(
          this, [](void* self) { static_cast<Cluster*>(self)->sweep(); }, Timer::Kind::Chore, log.nginxLog()) {}

/// The first map is requested without jitter, since requests may wait for it.
void Cluster::start() {
    search();
}

void Cluster::forEachServer(const std::function<void(Server&)>& visit) {
    for (Member& member : members_) {
        visit(member.server);
    }
}

// ---- who serves a slot

Server* Cluster::serverOf(std::uint16_t hashSlot) {
    Member* member = slots_.empty() ? nullptr : slots_[hashSlot];
    return member == nullptr ? nullptr : &member->server;
}

bool Cluster::canBeAsked(std::uint16_t hashSlot) {
    if (Server* server = serverOf(hashSlot)) {
        return server->canBeAsked();
    }
    if (!slots_.empty()) {
        refresh();  // no node served the slot when the map was made
        return false;
    }
    return !failing_ && someServerCanBeAsked();
}

/// Connects one if none is connected.
bool Cluster::someServerCanBeAsked() {
    return std::ranges::any_of(members_, [](Member& each) { return each.server.canBeAsked(); });
}

Server* Cluster::follow(const Redirect& redirect, const Server& from, bool forGood) {
    std::string host = redirect.host;
    if (host.empty()) {  // the host of the answering server, with another port
        host = std::ranges::find_if(members_, [&](const Member& each) { return &each.server == &from; })->host;
    }
    Member& target = memberAt(host, redirect.port);
    if (&target.server == &from && std::exchange(target.hasNewAddress, false)) {
        target.server.hasMoved("its name has another address");
    }
    if (forGood) {
        if (!slots_.empty()) {
            slots_[redirect.hashSlot] = &target;
            target.inMap = true;
        }
        refresh();
    }
    return &target.server;
}

Cluster::Member& Cluster::memberAt(const std::string& host, int port, std::string_view address) {
    const std::string name = hostAndPort(host, port);
    const auto known = std::ranges::find_if(members_, [&](const Member& each) { return each.server.name() == name; });
    if (known != members_.end()) {
        known->usedAt = nowMs();
        known->hasNewAddress = known->addresses.learn(address) || known->hasNewAddress;
        return *known;
    }
    members_.emplace_back(*this, name, host, std::make_unique<Addresses>(settings_, host, port, address));
    if (!sweep_.isSet()) {
        sweep_.set(keepUnmapped_);
    }
    return members_.back();
}

/// The next node of the configuration.
Cluster::Member& Cluster::seed() {
    const auto* servers = static_cast<const ServerSettings*>(settings_.servers.elts);
    const ServerSettings& server = servers[nextSeed_++ % settings_.servers.nelts];
    return memberAt(std::string(view(server.host)), server.port);
}

// ---- the map

/// Requests the map as soon as permitted.
void Cluster::refresh() {
    wanted_ = true;
    if (searching_ || refresh_.isSet() || owner_.isLeaving()) {
        return;
    }
    const ngx_msec_t since = nowMs() - askedAt_;
    refresh_.set((since < kAskEvery ? kAskEvery - since : 0) + randomNumber() % kJitter);
}

void Cluster::timeIsUp() {
    if (!searching_) {
        search();
        return;
    }
    if (source_ != nullptr && source_->asked) {
        log_.trouble(NGX_LOG_ERR, source_->server.name(), "CLUSTER SLOTS is not answered in time", "");
        tellFailing();
    } else if (source_ != nullptr) {
        source_->isSlow = true;
    }
    askNext();
}

void Cluster::search() {
    searching_ = true;
    askedAt_ = nowMs();
    seedsLeft_ = settings_.servers.nelts;
    for (Member& each : members_) {
        each.isSlow = false;
    }
    askNext();
}

/// Asks the next source, or connects it. If connecting fails before this returns, serverDown() has already tried the
/// next one.
void Cluster::askNext() {
    source_ = owner_.isLeaving() ? nullptr : nextSource();
    if (source_ == nullptr) {
        searching_ = false;
        refresh_.cancel();
        tellFailing();
        refresh();
    } else if (source_->server.isReady()) {
        ask(*source_);
    } else {
        refresh_.set(std::clamp(settings_.connectTimeout, kLeastPatience, kMostPatience));
        source_->server.connectIfIdle();
    }
}

/// Prefers nodes of the map, since others may have left the cluster. They are asked in turn, since one of them may be
/// cut off from the others.
Cluster::Member* Cluster::nextSource() {
    const auto first = [this](auto suits) {
        const auto found =
            std::ranges::find_if(members_, [&](Member& each) { return mayBeAsked(each) && suits(each); });
        return found == members_.end() ? nullptr : &*found;
    };
    Member* source = first([](const Member& each) { return each.inMap && each.server.isReady(); });
    source = source != nullptr ? source : first([](const Member& each) { return each.server.isReady(); });
    source = source != nullptr ? source : first([](const Member&) { return true; });
    while (source == nullptr && seedsLeft_ > 0) {
        seedsLeft_--;
        Member& next = seed();
        source = mayBeAsked(next) ? &next : nullptr;
    }
    return source;
}

bool Cluster::mayBeAsked(const Member& member) {
    const bool isTooEarly = member.mapRequest != 0 && nowMs() - member.askedAt < kAskEvery;
    return !member.asked && !isTooEarly && !member.isSlow && !member.server.isDown();
}

void Cluster::ask(Member& member) {
    static const std::string mapRequest = command({"CLUSTER", "SLOTS"});
    member.asked = member.server.send(mapRequest, member);
    member.askedAt = askedAt_ = nowMs();
    member.mapRequest = ++mapRequests_;
    members_.splice(members_.end(), members_,
                    std::ranges::find_if(members_, [&](const Member& each) { return &each == &member; }));
    wanted_ = false;
    refresh_.set(std::clamp(settings_.timeout, kLeastPatience, kMostPatience));
}

/// Requests that wait for the first map wait no longer.
void Cluster::tellFailing() {
    if (slots_.empty() && !std::exchange(failing_, true)) {
        owner_.mapChanged();
    }
}

/// A late reply is used unless a later request has been answered.
void Cluster::slotMapReplied(Member& member, const redisReply* reply) {
    member.asked = false;
    if (reply == nullptr) {
        return;  // followed by serverDown(), a new connection, or the timeout
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        log_.trouble(NGX_LOG_ERR, member.server.name(), "CLUSTER SLOTS answered", replyText(*reply));
    } else if (member.mapRequest < answeredMapRequest_ || takeOver(member, *reply)) {
        return;
    } else {
        log_.trouble(NGX_LOG_ERR, member.server.name(), "CLUSTER SLOTS names no node that serves slots", "");
    }
    if (source_ == &member) {
        wanted_ = true;
        askNext();
    }
}

/// False for a map without slots: the node is not part of a cluster.
bool Cluster::takeOver(const Member& from, const redisReply& reply) {
    const std::vector<SlotRange> ranges = readSlotMap(reply);
    if (ranges.empty()) {
        return false;
    }
    for (Member& each : members_) {
        each.inMap = false;
    }
    slots_.assign(kHashSlots, nullptr);
    const std::string fromHost = from.host;
    for (const SlotRange& range : ranges) {
        Member& member = memberAt(range.host.empty() ? fromHost : range.host, range.port, range.address);
        member.inMap = true;
        std::fill(slots_.begin() + range.first, slots_.begin() + range.last + 1, &member);
    }
    answeredMapRequest_ = from.mapRequest;
    failing_ = searching_ = false;
    source_ = nullptr;
    refresh_.cancel();
    const auto isLost = [](const Member& each) { return each.inMap && each.server.isDown(); };
    if (wanted_ || std::ranges::any_of(members_, isLost)) {
        refresh();
    }
    if (!sweep_.isSet()) {
        sweep_.set(keepUnmapped_);
    }
    owner_.mapChanged();
    goToNewAddresses();
    return true;
}

/// The address may already belong to a node that is down. A connected node stays connected until it proves to be
/// another node.
void Cluster::goToNewAddresses() {
    for (Member& each : members_) {
        if (each.hasNewAddress && each.server.isDown()) {
            each.hasNewAddress = false;
            each.server.hasMoved("its name has another address");
        }
    }
}

/// While there is no map, each newly connected node is asked.
void Cluster::serverReady(Server& server) {
    const bool isReplyDue = source_ != nullptr && source_->asked;
    if (isReplyDue || !(searching_ || slots_.empty())) {
        return;
    }
    std::ranges::find_if(members_, [&](const Member& each) { return &each.server == &server; })->isSlow = false;
    searching_ = true;
    askNext();
}

void Cluster::serverDown(Server& server) {
    wanted_ = true;
    if (source_ != nullptr && &source_->server == &server) {
        askNext();
    } else {
        refresh();
    }
}

/// Drops nodes that are not in the map. Called from a timer, so that none of them is inside a callback.
void Cluster::sweep() {
    bool remain = false;
    for (auto member = members_.begin(); member != members_.end();) {
        const bool isWatched = member->inMap || slots_.empty() || &*member == source_;
        if (isWatched || nowMs() - member->usedAt < keepUnmapped_) {
            remain = remain || !(member->inMap || slots_.empty());
            member++;
            continue;
        }
        const auto leaving = member++;
        owner_.serverLeaves(leaving->server);
        source_ = source_ == &*leaving ? nullptr : source_;  // its callbacks may have made it the source
        std::list<Member> gone;  // destroyed after the list is consistent, since it reports its calls
        gone.splice(gone.end(), members_, leaving);
    }
    if (remain) {
        sweep_.set(keepUnmapped_);
    }
}

}  // namespace sliding_log
