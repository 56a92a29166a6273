#include "worker.hpp"

#include <openssl/rand.h>

#include <span>
#include <stdexcept>

#include "shared/process.hpp"
#include "shared/slab_lock.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

/// How often a worker updates counters and the state of its servers.
constexpr ngx_msec_t kTickMs = 1000;

std::uint64_t secureRandom() {
    std::uint64_t random;
    if (RAND_bytes(reinterpret_cast<unsigned char*>(&random), sizeof random) != 1) {
        throw std::runtime_error("OpenSSL has no randomness");
    }
    return random;
}

}  // namespace

Worker::Worker(const MainSettings& settings, ngx_log_t* log)
    : pool_(*settings.zone->pool),
      uniqueIds_(secureRandom()),
      local_(*settings.zone),
      leases_(
          [this](std::span<Lease*> leases) {
              Leases::forEachRun(leases, [this](std::span<Lease*> run) { renewIn(local_, run); });
          },
          log),
      queues_(*settings.zone, log),
      registry_(*settings.zone->pool, settings.zone->header->registry, settings.zone->configuration),
      usedKeys_(settings.zone->header->usedKeys, settings.zone->header->topKeysBytes, secureRandom()),
      deniedKeys_(settings.zone->header->deniedKeys, settings.zone->header->topKeysBytes, secureRandom()),
      overrides_(settings.zone->header->overrides, settings.zone->header->overridesBytes),
      tick_(
          this, [](void* self) { static_cast<Worker*>(self)->tick(); }, Timer::Kind::Chore, log) {
    const std::span<LogSettings* const> logs(static_cast<LogSettings* const*>(settings.logs.elts), settings.logs.nelts);
    for (const LogSettings* each : logs) {
        limits_.push_back(&registry_.limit(view(each->name)));
        LeaseClaims* claims = traitsOf(each->algorithm).hasLeases ? &registry_.leases(view(each->name)) : nullptr;
        const bool isShared = claims != nullptr && !claims->names.first().empty();
        leaseLengths_.emplace_back(each->windowMs, isShared ? claims : nullptr);
    }
    claimLeases();
    const KnownDenials denials(settings.zone->header->denials, settings.zone->header->denialsBytes);
    const Permits permits(settings.zone->header->permits, settings.zone->header->permitsBytes);
    for (const RedisSettings* each : settings.allStores()) {
        stores_.push_back(each->used != 0 || each->nameable != 0
                              ? std::make_unique<RedisStore>(*each, denials, permits, local_, registry_, log)
                              : nullptr);
    }
    readRecords(logs);
    for (const RedisSettings* each : settings.allStores()) {
        if (each->used != 0) {
            store(*each).start();
        }
    }
    tick_.set(kTickMs);
}

/// Each store reads those of its NAMEs.
void Worker::readRecords(std::span<LogSettings* const> logs) {
    records_.resize(logs.size() * stores_.size());
    for (const LogSettings* each : logs) {
        for (const RedisSettings* home : each->obeysName() ? each->homes : std::span<RedisSettings* const>()) {
            NameRecord* record = &registry_.record(view(each->name), view(home->name));
            record = record->names.first().empty() ? &ownRecords_.emplace_back() : record;
            store(*home).readRecordOf(*each, *record);
            records_[each->index * stores_.size() + home->index] = record;
        }
    }
}

void Worker::claimLeases() {
    const SlabLock lock(pool_);
    for (const LeaseLength& each : leaseLengths_) {
        if (LeaseClaims* claims = each.claims()) {
            claims->touch(nowMs());
            claims->claim(each.ownMs(), nowMs(), processId(), isDead);
        }
    }
}

void Worker::tick() {
    claimLeases();
    for (LimitCounters* each : limits_) {
        each->touch(nowMs());
    }
    usedKeys_.age(nowMs());
    deniedKeys_.age(nowMs());
    std::size_t passing = 0;
    for (const std::unique_ptr<RedisStore>& store : stores_) {
        if (store != nullptr) {
            passing += store->tick();
        }
    }
    heap_.tick(passing);
    tick_.set(kTickMs);
}

}  // namespace sliding_log
