// The requests under way in a Redis store (algorithm=inflight): how their entries are renewed and given back.
#include <algorithm>
#include <string_view>
#include <vector>

#include "store/redis_store.hpp"

namespace sliding_log {

namespace {

/// After a decision that Redis could not make, this node counts who is under way for so long, in ms: Redis may answer
/// and yet refuse.
constexpr ngx_msec_t kCountsLocallyMs = 10'000;

/// A Redis that forbids a log refuses a renewal as a whole: for so long, in ms, each log is renewed by a call of its
/// own.
constexpr ngx_msec_t kRenewsApartMs = 60'000;

}  // namespace

void RedisStore::begin(Lease& lease) {
    leases_.begin(lease);
    if (lease.countsLocally && lease.localMs == 0) {
        onlyInRedis_.pushBack(lease);
    }
}

void RedisStore::end(Lease& lease) {
    const Check& check = lease.present();
    leases_.end(lease);
    if (lease.localMs != 0) {
        local_.takeBack({&check, 1}, lease.unique, lease.localMs, lease.localMs);
    }
    if (lease.mayBeInRedis) {
        takeBacks_.release(check, lease.unique);
    }
    if (quitting_) {
        flush_.post();  // the connection may be of no use any more
    }
}

// ---- renewals

/// True if its server has answered all that was asked in time, and no decision had to be made without it lately.
bool RedisStore::isServed(const Lease& lease) {
    return hasPassed(countsLocallyUntil_) && isWell(lease.check->hashSlot);
}

/// The order of calls on a connection is that of their execution: what is renewed here has not ended, and if it ends,
/// the ZREM follows. So a renewal is never repeated: what failed is written anew.
void RedisStore::renew(std::span<Lease*> leases) {
    const bool isApart = settings_.mode == static_cast<ngx_uint_t>(Mode::Cluster) || !hasPassed(renewsApartUntil_);
    Call* call = nullptr;
    Server* server = nullptr;
    Leases::forEachRun(leases, [&](std::span<Lease*> run) {
        const Lease& first = *run.front();
        isServed(first) ? leaveLocally(run) : renewLocally(run);
        if (!topology_->canBeAsked(first.check->hashSlot)) {
            return;
        }
        Server* its = topology_->serverOf(first.check->hashSlot);
        if (its == nullptr || !its->hasReplied() || (!its->isWell() && its->renewalsUnderWay() > 0)) {
            return;
        }
        server = its;
        if (call == nullptr) {
            call = &beginRenewal(first);
        }
        writer_.renew(run);
        for (Lease* lease : run) {
            lease->mayBeInRedis = true;
        }
        if (isApart) {
            send(*server, *call);
            call = nullptr;
        }
    });
    if (call != nullptr) {
        send(*server, *call);
    }
}

/// The leases follow, and then send().
Call& RedisStore::beginRenewal(const Lease& first) {
    Call& call = calls_.take();
    writer_.beginRenewal(call, *first.check);
    call.renewed = first.hash;
    return call;
}

void RedisStore::send(Server& server, Call& renewal) {
    writer_.finishRenewal();
    server.renewalsUnderWay()++;
    server.renewedAt() = ngx_current_msec;
    server.send(renewal);
    if (!renewalTimer_.isSet()) {
        renewalTimer_.set(settings_.timeout);
    }
}

/// Requests that ask nothing notice a server that is silent, too.
void RedisStore::watchRenewals() {
    bool any = false;
    topology_->forEachServer([&](Server& server) {
        if (server.renewalsUnderWay() > 0) {
            any = true;
            if (ngx_current_msec - server.renewedAt() >= settings_.timeout) {
                server.timedOut(server.renewedAt());
                server.giveUpIfSilent();
            }
        }
    });
    if (any) {
        countLocally();
        renewalTimer_.set(settings_.timeout);
    }
}

void RedisStore::renewalReplied(Call& call, const redisReply& reply, StoreError error) {
    Server& server = *call.server;
    server.renewalsUnderWay()--;
    const std::uint64_t log = call.renewed;
    const std::uint16_t hashSlot = call.hashSlot;
    const bool isAsking = call.asking;
    calls_.giveBack(call);
    switch (error) {
        case StoreError::None:
            for (std::size_t i = 0; reply.type == REDIS_REPLY_ARRAY && i < reply.elements; i++) {
                if (reply.element[i]->type == REDIS_REPLY_ERROR) {
                    log_.failure(server.shownName(), "answered", replyText(*reply.element[i]));
                }
            }
            return;
        case StoreError::NotMaster:
            log_.trouble(NGX_LOG_ERR, server.shownName(), "answered", replyText(errorOfCall(reply)));
            server.leaveAsReadOnly();
            return;
        case StoreError::Moved:
        case StoreError::Ask: {
            Server* target = redirectedBy(reply, server, error);
            const bool isReady = target != nullptr && target->canBeAsked() && target->hasReplied();
            if (error == StoreError::Ask && !isAsking && isReady) {
                renewWith(*target, log, hashSlot);
                return;
            }
            break;
        }
        case StoreError::Forbidden:
            log_.failure(server.shownName(), "answered", replyText(reply));
            if (!isOfKeys(replyText(reply)) || !hasPassed(renewsApartUntil_)) {
                return;
            }
            renewsApartUntil_ = ngx_current_msec + kRenewsApartMs;
            break;
        case StoreError::TryAgain:
        case StoreError::NoScript:
            break;
        case StoreError::Down:
        case StoreError::Timeout:
        case StoreError::OutOfMemory:
        case StoreError::WrongType:
        case StoreError::Refused:
        case StoreError::Unexpected:
            log_.failure(server.shownName(), "answered", replyText(reply));
            return;
    }
    leases_.renewAgain();
}

/// The slot is being imported by that server, which has the log, or will.
void RedisStore::renewWith(Server& importing, std::uint64_t log, std::uint16_t hashSlot) {
    constexpr ngx_msec_t kPartOfLength = 12;  // longer than a turn of renewals lasts, shorter than until the next one
    std::vector<Lease*> leases;
    leases_.forEach([&](Lease& lease) {
        if (lease.check->hashSlot == hashSlot && lease.hash == log) {
            lease.present();
            leases.push_back(&lease);
        }
    });
    // the parts of a turn are redirected one after the other, and each would renew them all
    if (leases.empty() || (log == renewedElsewhere_ && !hasPassed(renewedElsewhereUntil_))) {
        return;
    }
    renewedElsewhere_ = log;
    renewedElsewhereUntil_ =
        ngx_current_msec + static_cast<ngx_msec_t>(leases.front()->check->windowMs) / kPartOfLength;
    Leases::forEachRun(leases, [&](std::span<Lease*> run) {
        while (!run.empty()) {
            const std::span<Lease*> some = run.first(std::min(run.size(), Leases::kMostAtOnce));
            run = run.subspan(some.size());
            Call& call = beginRenewal(*some.front());
            writer_.renew(some);
            call.asking = true;
            send(importing, call);
        }
    });
}

/// They are renewed when the server is ready again.
void RedisStore::renewalLost(Call& call) {
    call.server->renewalsUnderWay()--;
    calls_.giveBack(call);
}

// ---- while Redis is away

void RedisStore::countLocally(const Check& decided) {
    if (takes(decided.algorithm, Parameter::Lease)) {
        countsLocallyUntil_ = ngx_current_msec + kCountsLocallyMs;
        countLocally();
    }
}

/// Those whose server does not decide.
void RedisStore::countLocally() {
    List<Lease, OnlyInRedis> served;
    while (Lease* lease = onlyInRedis_.popFront()) {
        if (isServed(*lease)) {
            served.pushBack(*lease);
        } else {
            enterLocally(*lease);
        }
    }
    served.moveTo(onlyInRedis_);
}

void RedisStore::enterLocally(Lease& lease) {
    lease.localMs = local_.renew(lease.present(), lease.check->cost, 0);
}

/// Those of one log, with entries of one time in it, or with none.
void RedisStore::renewLocally(std::span<Lease*> leases) {
    if (leases.front()->localMs != 0) {
        renewIn(local_, leases);
        return;
    }
    for (Lease* lease : leases) {
        ListHook<OnlyInRedis>& hook = *lease;
        if (hook.isLinked()) {
            hook.unlink();
            enterLocally(*lease);
        }
    }
}

void RedisStore::leaveLocally(std::span<Lease*> leases) {
    if (const std::uint64_t loggedMs = leases.front()->localMs; loggedMs != 0) {
        Check all = *leases.front()->check;
        all.cost = entriesOf(leases);
        local_.takeBack({&all, 1}, leases.front()->unique, loggedMs, loggedMs);
    }
    for (Lease* lease : leases) {
        lease->localMs = 0;
    }
    watchForLocal(leases);
}

/// countLocally() enters them. Some may have been left out when the zone was full.
void RedisStore::watchForLocal(std::span<Lease*> leases) {
    for (Lease* lease : leases) {
        if (lease->countsLocally && !static_cast<ListHook<OnlyInRedis>&>(*lease).isLinked()) {
            onlyInRedis_.pushBack(*lease);
        }
    }
}

}  // namespace sliding_log
