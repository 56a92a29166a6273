#include "request/under_way.hpp"

#include <exception>

#include "this_process.hpp"
#include "worker.hpp"

namespace sliding_log {

namespace {

/// An override that allows has logged nothing.
bool isUnderWay(const Decision& decision, const Check& check) {
    return traitsOf(check.algorithm).hasLeases && check.cost > 0 && decision.source != Source::Override &&
           decision.wasAsked() && !decision.isDenied();
}

void takeBackEntry(Decision& decision, Lease& lease) {
    const RedisSettings* redis = decision.home;
    const Check& check = lease.present();
    if (redis == nullptr) {
        worker().leases().end(lease);
        worker().local().takeBack({&check, 1}, lease.unique, lease.localMs, lease.localMs);
        return;
    }
    RedisStore& store = worker().store(*redis);
    const std::string_view unique = lease.unique;
    store.end(lease);
    if (decision.lateReply != nullptr) {
        store.takeBackLate(*decision.lateReply, {&check, 1}, unique);
    }
}

void endLease(Decision& decision, Lease& lease) {
    const LogSettings& log = *decision.settings->log;
    const std::string_view key = lease.check->key;
    const ngx_msec_t lastedMs = nowMs() - lease.begunAt;
    takeBackEntry(decision, lease);
    if (log.isQueuedFor) {
        worker().queues().placeFreed(worker().identityOf(decision.home), key, lastedMs);
    }
}

}  // namespace

void useLeasesOfNow(const Round& round, const Stage& stage) {
    for (std::size_t i = stage.begin; round.leases != nullptr && i < stage.end; i++) {
        worker().leaseLength(*round.decisions[i].settings->log).applyTo(round.checks[i]);
    }
}

void beginLeases(const LocationSettings& location, Round& round, std::span<const Decision> together) {
    if (round.leases == nullptr) {
        return;
    }
    for (const Decision& decision : together) {
        const auto i = static_cast<std::size_t>(&decision - round.decisions);
        if (round.leases[i].isHeld() || !isUnderWay(decision, round.checks[i])) {
            continue;
        }
        const RedisSettings* redis = decision.home;
        Lease& lease = round.leases[i];
        lease.check = &round.checks[i];
        lease.length = &worker().leaseLength(*decision.settings->log);
        lease.unique = round.unique.view();
        lease.localMs = decision.source == Source::Local && decision.logged ? decision.loggedMs : 0;
        if (redis == nullptr) {
            worker().leases().begin(lease);
            continue;
        }
        lease.mayBeInRedis = decision.source == Source::Redis || decision.lateReply != nullptr;
        lease.countsLocally = location.onError == static_cast<ngx_uint_t>(OnError::Local);
        worker().store(*redis).begin(lease);
    }
}

void endMarkedLeases(Round& round) {
    for (std::size_t i = 0; round.leases != nullptr && i < round.count; i++) {
        Decision& decision = round.decisions[i];
        if (decision.isLeaving && round.leases[i].isHeld()) {
            endLease(decision, round.leases[i]);
            round.verdicts[i].remaining += decision.logged ? round.checks[i].cost : 0;
            decision.isLeaving = decision.logged = false;
            decision.lateReply = nullptr;
        }
    }
}

void endLeases(Context& context) noexcept {
    for (Round* round = context.round; round != nullptr; round = round->previous) {
        for (std::size_t i = 0; round->leases != nullptr && i < round->count; i++) {
            if (!round->leases[i].isHeld()) {
                continue;
            }
            round->decisions[i].logged = false;
            try {
                endLease(round->decisions[i], round->leases[i]);
            } catch (const std::exception& e) {  // it is held no more
                ngx_log_error(NGX_LOG_ALERT, context.request->connection->log, 0, "sliding_log: %s", e.what());
            }
        }
    }
}

}  // namespace sliding_log
