#include "store/renewals.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "redis/reply.hpp"
#include "store/server_queues.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

/// After a decision that Redis could not make, this node counts who is under way for so long, in ms: Redis may answer
/// and yet refuse.
constexpr ngx_msec_t kCountsLocallyMs = 10'000;

/// A Redis that forbids a log refuses a renewal as a whole: for so long, in ms, each log is renewed by a call of its
/// own.
constexpr ngx_msec_t kRenewsApartMs = 60'000;

}  // namespace

Renewals::Renewals(StoreOfCalls& store, const RedisSettings& settings, StoreLog& log, LocalStore& local,
                   ngx_log_t* nginxLog)
    : store_(store),
      settings_(settings),
      log_(log),
      local_(local),
      watchTimer_(
          this, [](void* self) { static_cast<Renewals*>(self)->watch(); }, Timer::Kind::Chore, nginxLog),
      leases_([this](std::span<Lease*> leases) { renew(leases); }, nginxLog) {}

void Renewals::begin(Lease& lease) {
    leases_.begin(lease);
    if (lease.countsLocally && lease.localMs == 0) {
        onlyInRedis_.pushBack(lease);
    }
}

void Renewals::end(Lease& lease) {
    const Check& check = lease.present();
    leases_.end(lease);
    if (lease.localMs != 0) {
        local_.takeBack({&check, 1}, lease.unique, lease.localMs, lease.localMs);
    }
}

std::size_t Renewals::freeUnused() {
    writer_.freeMemory();
    return calls_.freeUnused();
}

void Renewals::serverReady() {
    leases_.renewSoon(randomNumber() % (kSpreadMs + 1));
}

// ---- renewals

/// True if its server has answered all that was asked in time, and no decision had to be made without it lately.
bool Renewals::isServed(const Lease& lease) {
    const Server* server = hasPassed(countsLocallyUntil_) ? store_.topology().serverOf(lease.check->hashSlot) : nullptr;
    return server != nullptr && server->isWell();
}

void Renewals::renew(std::span<Lease*> leases) {
    const bool isApart = settings_.mode == static_cast<ngx_uint_t>(Mode::Cluster) || !hasPassed(renewsApartUntil_);
    RenewalCall* call = nullptr;
    Server* server = nullptr;
    Leases::forEachRun(leases, [&](std::span<Lease*> run) {
        const Lease& first = *run.front();
        isServed(first) ? leaveLocally(run) : renewLocally(run);
        if (!store_.canBeAsked(first.check->hashSlot)) {
            return;
        }
        Server* its = store_.topology().serverOf(first.check->hashSlot);
        if (its == nullptr || !its->hasReplied() || (!its->isWell() && queuesOf(*its).renewalsUnderWay > 0)) {
            return;
        }
        server = its;
        if (call == nullptr) {
            call = &newCall(first);
        }
        writer_.add(run);
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
RenewalCall& Renewals::newCall(const Lease& first) {
    RenewalCall& call = calls_.take(*this);
    writer_.begin(call, first);
    return call;
}

void Renewals::send(Server& server, RenewalCall& call) {
    writer_.finish();
    queuesOf(server).renewalsUnderWay++;
    queuesOf(server).renewedAt = nowMs();
    server.send(call);
    if (!watchTimer_.isSet()) {
        watchTimer_.set(settings_.timeout);
    }
}

/// Requests that ask nothing notice a server that is silent, too.
void Renewals::watch() {
    bool any = false;
    store_.topology().forEachServer([&](Server& server) {
        const ServerQueues& queues = queuesOf(server);
        if (queues.renewalsUnderWay > 0) {
            any = true;
            if (nowMs() - queues.renewedAt >= settings_.timeout) {
                server.timedOut(queues.renewedAt);
                server.giveUpIfSilent();
            }
        }
    });
    if (any) {
        countLocally();
        watchTimer_.set(settings_.timeout);
    }
}

void Renewals::answered(RenewalCall& call, const redisReply& reply, StoreError error) {
    Server& server = *call.server;
    queuesOf(server).renewalsUnderWay--;
    bool isDueAgain = false;
    switch (error) {
        case StoreError::None:
            for (std::size_t i = 0; reply.type == REDIS_REPLY_ARRAY && i < reply.elements; i++) {
                if (reply.element[i]->type == REDIS_REPLY_ERROR) {
                    log_.failure(server.shownName(), "answered", replyText(*reply.element[i]));
                }
            }
            break;
        case StoreError::NotMaster:
            store_.leaveAsReadOnly(server, reply);
            break;
        case StoreError::Moved:
        case StoreError::Ask:
            isDueAgain = !follow(call, reply, error);
            break;
        case StoreError::Forbidden:
            log_.failure(server.shownName(), "answered", replyText(reply));
            isDueAgain = isOfKeys(replyText(reply)) && hasPassed(renewsApartUntil_);
            renewsApartUntil_ = isDueAgain ? nowMs() + kRenewsApartMs : renewsApartUntil_;
            break;
        case StoreError::TryAgain:
        case StoreError::NoScript:
            isDueAgain = true;
            break;
        case StoreError::Down:
        case StoreError::Timeout:
        case StoreError::OutOfMemory:
        case StoreError::WrongType:
        case StoreError::Refused:
        case StoreError::Unexpected:
            log_.failure(server.shownName(), "answered", replyText(reply));
            break;
    }
    calls_.recycle(call);
    if (isDueAgain) {
        leases_.renewAgain();
    }
    store_.closeWhenUnused();
}

/// The server of the slot is noted. True if another one imports the slot, and renews the log of the call.
bool Renewals::follow(const RenewalCall& call, const redisReply& reply, StoreError error) {
    Server* target = store_.redirectedBy(call, reply, error);
    if (error != StoreError::Ask || call.followsAsk || target == nullptr || !target->hasReplied()) {
        return false;
    }
    renewWith(*target, call.log, call.hashSlot);
    return true;
}

/// The slot is being imported by that server, which has the log, or will.
void Renewals::renewWith(Server& importing, std::uint64_t log, std::uint16_t hashSlot) {
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
    renewedElsewhereUntil_ = nowMs() + static_cast<ngx_msec_t>(leases.front()->check->windowMs) / kPartOfLength;
    Leases::forEachRun(leases, [&](std::span<Lease*> run) {
        while (!run.empty()) {
            const std::span<Lease*> some = run.first(std::min(run.size(), Leases::kMostAtOnce));
            run = run.subspan(some.size());
            RenewalCall& call = newCall(*some.front());
            writer_.add(some);
            call.followsAsk = true;
            send(importing, call);
        }
    });
}

/// They are renewed when the server is ready again.
void Renewals::lost(RenewalCall& call) {
    queuesOf(*call.server).renewalsUnderWay--;
    calls_.recycle(call);
}

// ---- while Redis is away

void Renewals::countLocally(const Check& decided) {
    if (traitsOf(decided.algorithm).hasLeases) {
        countsLocallyUntil_ = nowMs() + kCountsLocallyMs;
        countLocally();
    }
}

/// Those whose server does not decide.
void Renewals::countLocally() {
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

void Renewals::enterLocally(Lease& lease) {
    lease.localMs = local_.renew(lease.present(), lease.check->cost, 0);
}

/// Those of one log, with entries of one time in it, or with none.
void Renewals::renewLocally(std::span<Lease*> leases) {
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

void Renewals::leaveLocally(std::span<Lease*> leases) {
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
void Renewals::watchForLocal(std::span<Lease*> leases) {
    for (Lease* lease : leases) {
        if (lease->countsLocally && !static_cast<ListHook<OnlyInRedis>&>(*lease).isLinked()) {
            onlyInRedis_.pushBack(*lease);
        }
    }
}

}  // namespace sliding_log
