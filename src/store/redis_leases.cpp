// The requests under way in a Redis store (algorithm=inflight): how their entries are renewed and given back.
#include <string_view>
#include <vector>

#include "store/redis_store.hpp"

namespace sliding_log {

namespace {

/// When a renewal that failed is tried again, in ms.
constexpr ngx_msec_t kRenewAgainMs = 300;

/// A ZREM has at most this many members.
constexpr std::size_t kMostReleased = 1000;

}  // namespace

void RedisStore::begin(Lease& lease) {
    leases_.begin(lease);
    if (lease.countsLocally && lease.localMs == 0) {
        onlyInRedis_.pushBack(lease);
    }
}

void RedisStore::end(Lease& lease) {
    const Check& check = *lease.check;
    leases_.end(lease);
    if (lease.localMs != 0) {
        local_.takeBack({&check, 1}, lease.unique, lease.localMs, lease.localMs);
    }
    if (lease.mayBeInRedis) {
        release(check, lease.unique);
    }
    if (quitting_) {
        flush_.post();  // the connection may be of no use any more
    }
}

// ---- giving back

/// Those of one event-loop turn and one log go together. The decisions of that turn follow them.
void RedisStore::release(const Check& check, std::string_view unique) {
    Call* call = nullptr;
    releases_.forEach([&](Call& each) {
        if (call == nullptr && each.logs < kMostReleased && CallWriter::isReleaseOf(each, check)) {
            call = &each;
        }
    });
    if (call == nullptr) {
        call = &calls_.take();
        call->leftLogs.clear();
        call->settles = false;
        call->until = ngx_current_msec + static_cast<ngx_msec_t>(check.windowMs);
        CallWriter::beginRelease(*call, check);
        noteTakeBack();
        releases_.pushBack(*call);
        flush_.post();
    }
    CallWriter::addToRelease(*call, check, unique);
}

void RedisStore::sendReleases() {
    while (Call* call = releases_.popFront()) {
        Server* server = serverFor(*call);
        if (server != nullptr && server->isWell()) {
            sendTakeBack(*server, *call);
        } else {
            keep(*call);
        }
    }
}

// ---- renewals

/// True if its server has answered all that was asked in time.
bool RedisStore::isServed(const Lease& lease) {
    return isWell(lease.check->hashSlot);
}

/// The order of calls on a connection is that of their execution: what is renewed here has not ended, and if it ends,
/// the ZREM follows. So a renewal is never repeated: what failed is written anew.
void RedisStore::renew(std::span<Lease*> leases) {
    const bool isCluster = settings_.mode == static_cast<ngx_uint_t>(Mode::Cluster);
    Call* call = nullptr;
    Server* server = nullptr;
    Leases::forEachRun(leases, [&](std::span<Lease*> run) {
        const Lease& first = *run.front();
        isServed(first) ? leaveLocally(run) : renewLocally(run);
        if (!topology_->canBeAsked(first.check->hashSlot)) {
            return;
        }
        server = topology_->serverOf(first.check->hashSlot);
        if (server == nullptr || !server->hasReplied() || (!server->isWell() && server->renewalsUnderWay() > 0)) {
            return;
        }
        if (call == nullptr) {
            call = &calls_.take();
            writer_.beginRenewal(*call, *first.check);
            call->renewed = first.hash;
        }
        writer_.renew(run);
        for (Lease* lease : run) {
            lease->mayBeInRedis = true;
        }
        if (isCluster) {
            writer_.finishRenewal();
            send(*server, *call);
            call = nullptr;
        }
    });
    if (call != nullptr) {
        writer_.finishRenewal();
        send(*server, *call);
    }
}

void RedisStore::send(Server& server, Call& renewal) {
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
        case StoreError::Ask:
            if (Server* target = redirectedBy(reply, server, error);
                error == StoreError::Ask && !isAsking && target != nullptr && target->hasReplied()) {
                renewWith(*target, log, hashSlot);
                return;
            }
            break;
        case StoreError::TryAgain:
        case StoreError::NoScript:
            break;
        case StoreError::Down:
        case StoreError::Timeout:
        case StoreError::OutOfMemory:
        case StoreError::WrongType:
        case StoreError::Forbidden:
        case StoreError::Refused:
        case StoreError::Unexpected:
            log_.failure(server.shownName(), "answered", replyText(reply));
            return;
    }
    leases_.renewSoon(kRenewAgainMs);
}

/// The slot is being imported by that server, which has the log, or will.
void RedisStore::renewWith(Server& importing, std::uint64_t log, std::uint16_t hashSlot) {
    std::vector<Lease*> leases;
    leases_.forEach([&](Lease& lease) {
        if (lease.check->hashSlot == hashSlot && lease.hash == log) {
            leases.push_back(&lease);
        }
    });
    Leases::forEachRun(leases, [&](std::span<Lease*> run) {
        Call& call = calls_.take();
        writer_.beginRenewal(call, *run.front()->check);
        call.renewed = log;
        writer_.renew(run);
        writer_.finishRenewal();
        call.asking = true;
        send(importing, call);
    });
}

/// They are renewed when the server is ready again.
void RedisStore::renewalLost(Call& call) {
    call.server->renewalsUnderWay()--;
    calls_.giveBack(call);
}

// ---- while Redis is away

void RedisStore::countLocally() {
    List<Lease, OnlyInRedis> served;
    while (Lease* lease = onlyInRedis_.popFront()) {
        if (isServed(*lease)) {
            served.pushBack(*lease);
        } else {
            lease->localMs = local_.renew(*lease->check, lease->check->cost, 0);
        }
    }
    served.moveTo(onlyInRedis_);
}

/// Those of one log, with entries of one time in it, or with none.
void RedisStore::renewLocally(std::span<Lease*> leases) {
    leases.front()->localMs == 0 ? countLocally() : renewIn(local_, leases);
}

void RedisStore::leaveLocally(std::span<Lease*> leases) {
    const std::uint64_t loggedMs = leases.front()->localMs;
    if (loggedMs == 0) {
        return;
    }
    Check all = *leases.front()->check;
    all.cost = entriesOf(leases);
    local_.takeBack({&all, 1}, leases.front()->unique, loggedMs, loggedMs);
    for (Lease* lease : leases) {
        lease->localMs = 0;
        if (lease->countsLocally) {
            onlyInRedis_.pushBack(*lease);
        }
    }
}

}  // namespace sliding_log
