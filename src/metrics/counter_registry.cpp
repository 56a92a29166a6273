#include "metrics/counter_registry.hpp"

#include "shared/slab_lock.hpp"
#include "this_process.hpp"

namespace sliding_log {

namespace {

constexpr ngx_msec_t kWarnOfFullEveryMs = 60'000;

}  // namespace

template <typename T>
T& CounterRegistry::findOrMake(RegistryList<T>& list, std::string_view first, std::string_view second) {
    const SlabLock lock(*pool_);
    for (auto* each = list.load(std::memory_order_relaxed); each != nullptr; each = each->next) {
        T& counters = each->counters;
        if (counters.names.first() == first && counters.names.second() == second) {
            counters.touch(nowMs());
            return counters;
        }
    }
    T* made = decltype(T::names)::fit(first, second) ? makeRoom(list) : nullptr;
    if (made == nullptr) {
        static T leftOut;
        warn(first, second);
        return leftOut;
    }
    made->names.set(first, second);
    made->touch(nowMs());
    return *made;
}

template LimitCounters& CounterRegistry::findOrMake(RegistryList<LimitCounters>&, std::string_view, std::string_view);
template LeaseClaims& CounterRegistry::findOrMake(RegistryList<LeaseClaims>&, std::string_view, std::string_view);
template NameRecord& CounterRegistry::findOrMake(RegistryList<NameRecord>&, std::string_view, std::string_view);
template ServerCounters& CounterRegistry::findOrMake(RegistryList<ServerCounters>&, std::string_view, std::string_view);

/// New counters, or those of a limit or server that has not been used for long, reset to zero; nullptr if there are
/// none.
template <typename T>
T* CounterRegistry::makeRoom(RegistryList<T>& list) {
    auto* first = list.load(std::memory_order_relaxed);
    if (header_->left >= sizeof(RegistryEntry<T>)) {
        auto* made = new (header_->memory) RegistryEntry<T>();
        header_->memory += sizeof(RegistryEntry<T>);
        header_->left -= sizeof(RegistryEntry<T>);
        made->next = first;
        list.store(made, std::memory_order_release);
        return &made->counters;
    }
    for (auto* each = first; each != nullptr; each = each->next) {
        if (isUntouchedFor(each->counters, kKeptMs)) {
            each->counters.clear();
            return &each->counters;
        }
    }
    return nullptr;
}

void CounterRegistry::warn(std::string_view first, std::string_view second) {
    if (header_->everWarned != 0 && nowMs() - header_->warnedAt < kWarnOfFullEveryMs) {
        return;
    }
    header_->everWarned = 1;
    header_->warnedAt = nowMs();
    const ngx_str_t names[] = {toNgx(first), toNgx(second)};
    ngx_log_error(NGX_LOG_ERR, processLog(), 0,
                  "\"sliding_log_zone\" has no room for the metrics of \"%V\"%s%V: they are left out; make it larger",
                  &names[0], second.empty() ? "" : " at ", &names[1]);
}

}  // namespace sliding_log
