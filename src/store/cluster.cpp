#include "store/cluster.hpp"

#include <algorithm>
#include <utility>

#include "redis/addresses.hpp"
#include "redis/reply.hpp"
#include "redis/resp.hpp"

namespace sliding_log {

namespace {

/// The map is not asked for more often than this, in ms; while a node of it is lost, not less often than that, nor than
/// the longest `reconnect` delay.
constexpr std::uint64_t kRefreshMin = 100;
constexpr std::uint64_t kRefreshMax = 1000;

/// A node outside the map is kept for so many ms at least after something pointed to it: slots may be on their way to
/// it.
constexpr ngx_msec_t kKeepUnmapped = 2000;

}  // namespace

Cluster::Member::Member(Cluster& owner, const std::string& name, std::string hostName, std::unique_ptr<Locator> locator)
    : cluster(owner),
      host(std::move(hostName)),
      usedAt(ngx_current_msec),
      node(owner.owner_, owner.log_, owner.settings_, name, std::move(locator)) {}

Cluster::Cluster(ClusterOwner& owner, StoreLog& log, const RedisSettings& settings)
    : owner_(owner),
      log_(log),
      settings_(settings),
      keepUnmapped_(std::max(kKeepUnmapped, settings.timeout)),
      nextSeed_(static_cast<std::size_t>(ngx_random())),  // workers spread over the nodes
      backoff_(kRefreshMin, std::clamp<std::uint64_t>(settings.reconnectMax, kRefreshMin, kRefreshMax)),
      refresh_(
          this, [](void* self) { static_cast<Cluster*>(self)->refresh(); }, Timer::Kind::Chore, log.nginxLog()),
      sweep_(
          this, [](void* self) { static_cast<Cluster*>(self)->sweep(); }, Timer::Kind::Chore, log.nginxLog()) {}

void Cluster::start() {
    seed().node.connect();
}

void Cluster::forEachNode(const std::function<void(Node&)>& visit) {
    for (Member& member : members_) {
        visit(member.node);
    }
}

// ---- who serves a slot

Node* Cluster::nodeOf(std::uint16_t slot) {
    Member* member = slots_.empty() ? nullptr : slots_[slot];
    return member == nullptr ? nullptr : &member->node;
}

bool Cluster::canBeAsked(std::uint16_t slot) {
    if (Node* node = nodeOf(slot)) {
        return node->canBeAsked();
    }
    if (!slots_.empty()) {
        refresh();  // nobody served the slot when the map was made
        return false;
    }
    return !failing_ && someNodeCanBeAsked();
}

/// Connects to one where none is connected.
bool Cluster::someNodeCanBeAsked() {
    return std::ranges::any_of(members_, [](Member& each) { return each.node.canBeAsked(); });
}

Node* Cluster::follow(const Redirect& redirect, const Node& from, bool forGood) {
    std::string host = redirect.host;
    if (host.empty()) {  // the server that answered, by another port
        host = std::ranges::find_if(members_, [&](const Member& each) { return &each.node == &from; })->host;
    }
    Member& target = memberAt(host, redirect.port);
    if (forGood) {
        if (!slots_.empty()) {
            slots_[redirect.slot] = &target;
            target.inMap = true;
        }
        refresh();
    }
    return &target.node;
}

Cluster::Member& Cluster::memberAt(const std::string& host, int port, std::string_view address) {
    const std::string name = hostAndPort(host, port);
    const auto known = std::ranges::find_if(members_, [&](const Member& each) { return each.node.name() == name; });
    if (known != members_.end()) {
        known->usedAt = ngx_current_msec;
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

/// Asks for the map, now or as soon as may be.
void Cluster::refresh() {
    wanted_ = true;
    const ngx_msec_t since = ngx_current_msec - askedAt_;
    if (refresh_.isSet() || owner_.isLeaving()) {
        return;
    }
    if (askedAt_ != 0 && since < kRefreshMin) {
        refresh_.set(kRefreshMin - since);
        return;
    }
    const auto member = memberToAsk();
    if (member != members_.end()) {
        static const std::string question = command({"CLUSTER", "SLOTS"});
        member->asked = member->node.send(question, *member);
        members_.splice(members_.end(), members_, member);
        askedAt_ = ngx_current_msec;
        wanted_ = false;
        refresh_.set(settings_.connectTimeout + kRefreshMin);  // then another one is asked
        return;
    }
    if (!someNodeCanBeAsked()) {
        seed().node.connectIfIdle();
    }
    refresh_.set(kRefreshMax);  // nodeReady() asks earlier
}

/// A node that is connected, first one that the map has: another may have left the cluster. They take turns, since one
/// of them may be cut off from the others.
std::list<Cluster::Member>::iterator Cluster::memberToAsk() {
    const auto mayBeAsked = [](const Member& each) { return each.node.isReady() && !each.asked; };
    const auto found =
        std::ranges::find_if(members_, [&](const Member& each) { return each.inMap && mayBeAsked(each); });
    return found != members_.end() ? found : std::ranges::find_if(members_, mayBeAsked);
}

void Cluster::answered(Member& member, const redisReply* reply) {
    member.asked = false;
    if (reply == nullptr) {
        return;  // nodeDown() follows, or a new connection
    }
    refresh_.cancel();
    if (reply->type == REDIS_REPLY_ERROR) {
        noMap(member, "CLUSTER SLOTS answered", replyText(*reply));
    } else if (!takeOver(member, *reply)) {
        noMap(member, "CLUSTER SLOTS names no node that serves slots", "");
    }
}

void Cluster::noMap(const Member& member, const char* what, std::string_view cause) {
    log_.trouble(NGX_LOG_ERR, member.node.name(), what, cause);
    if (slots_.empty()) {
        failing_ = true;
        owner_.mapChanged();
    }
    wanted_ = true;
    refresh_.set(backoff_.next(static_cast<std::uint64_t>(ngx_random())));
}

/// False for a map without any slot: that node knows no cluster.
bool Cluster::takeOver(const Member& from, const redisReply& reply) {
    const std::vector<SlotRange> ranges = readSlotMap(reply);
    if (ranges.empty()) {
        return false;
    }
    for (Member& each : members_) {
        each.inMap = false;
    }
    slots_.assign(kSlots, nullptr);
    const std::string fromHost = from.host;
    for (const SlotRange& range : ranges) {
        Member& member = memberAt(range.host.empty() ? fromHost : range.host, range.port, range.address);
        member.inMap = true;
        std::fill(slots_.begin() + range.first, slots_.begin() + range.last + 1, &member);
    }
    failing_ = false;
    const auto isLost = [](const Member& each) { return each.inMap && each.node.isDown(); };
    if (wanted_ || std::ranges::any_of(members_, isLost)) {
        refresh_.set(backoff_.next(static_cast<std::uint64_t>(ngx_random())));
    } else {
        backoff_.reset();
    }
    if (!sweep_.isSet()) {
        sweep_.set(keepUnmapped_);
    }
    owner_.mapChanged();
    return true;
}

void Cluster::nodeReady(Node&) {
    if (wanted_ && memberToAsk() != members_.end()) {
        refresh_.cancel();
        refresh();
    }
}

void Cluster::nodeDown(Node&) {
    refresh();
}

/// Lets go of nodes that the map does not have. Called from a timer: none of them is inside a callback.
void Cluster::sweep() {
    bool remain = false;
    for (auto member = members_.begin(); member != members_.end();) {
        const bool isWatched = member->inMap || slots_.empty();
        if (isWatched || ngx_current_msec - member->usedAt < keepUnmapped_) {
            remain = remain || !isWatched;
            member++;
            continue;
        }
        owner_.nodeLeaves(member->node);
        std::list<Member> gone;  // dies when the others are a list again: it tells of its calls
        gone.splice(gone.end(), members_, member++);
    }
    if (remain) {
        sweep_.set(keepUnmapped_);
    }
}

}  // namespace sliding_log
