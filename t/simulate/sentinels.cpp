#include "sentinels.hpp"

namespace simulate {

Sentinels::Sentinels(Kernel& kernel, Random random, StoreWitness& witness, Host first, Address master)
    : kernel_(kernel), random_(random), witness_(witness) {
    for (std::size_t i = 0; i < kCount; i++) {
        const Address address{first + static_cast<Host>(i), 26379};
        sentinels_.push_back(std::make_unique<SentinelHost>(kernel, address, master));
    }
}

std::string Sentinels::directives() const {
    std::string text = "mode sentinel " + std::string(SentinelHost::kMaster) + "; server";
    for (const auto& sentinel : sentinels_) {
        text += " " + textOf(sentinel->address().host) + ":26379";
    }
    return text + ";";
}

void Sentinels::chose(const RedisHost& master, const RedisHost&) {
    const Address address = master.address();
    const std::size_t leader = random_.below(sentinels_.size());
    sentinels_[leader]->promoted(address);
    for (const auto& sentinel : sentinels_) {
        kernel_.schedule().after(lasting(random_, 200 * kMs), [&sentinel, address] { sentinel->learn(address); });
    }
}

void Sentinels::die() {
    SentinelHost& sentinel = *sentinels_[random_.below(sentinels_.size())];
    witness_.noted("Sentinel killed");
    sentinel.crash();
    kernel_.schedule().after(lasting(random_, kSecond), [this, &sentinel] {
        witness_.noted("Sentinel started");
        sentinel.start();
    });
}

}  // namespace simulate
