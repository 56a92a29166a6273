#include "worker.hpp"

#include <openssl/rand.h>

#include <stdexcept>

namespace sliding_log {

std::unique_ptr<Worker> gWorker;

namespace {

std::uint64_t secureRandom() {
    std::uint64_t random;
    if (RAND_bytes(reinterpret_cast<unsigned char*>(&random), sizeof random) != 1) {
        throw std::runtime_error("OpenSSL has no randomness");
    }
    return random;
}

}  // namespace

Worker::Worker(const MainSettings& settings, ngx_log_t* log) : uniqueIds_(secureRandom()), local_(*settings.zone) {
    const Denials denials(settings.zone->header->denials, settings.zone->header->denialsBytes);
    const auto* const* stores = static_cast<const RedisSettings* const*>(settings.stores.elts);
    for (ngx_uint_t i = 0; i < settings.stores.nelts; i++) {
        stores_.push_back(stores[i]->used ? std::make_unique<RedisStore>(*stores[i], denials, log) : nullptr);
    }
    for (const std::unique_ptr<RedisStore>& store : stores_) {
        if (store != nullptr) {
            store->start();
        }
    }
}

}  // namespace sliding_log
