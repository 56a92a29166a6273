#include "store/renewal_call.hpp"

#include "store/leases.hpp"

namespace sliding_log {

void RenewalWriter::begin(RenewalCall& call, const Lease& first) {
    call.reset(first.check->algorithm, first.check->hashSlot);
    call.log = first.hash;
    call_ = &call;
    text_.clear();
    text_.arguments().renew();
}

void RenewalWriter::add(std::span<Lease* const> leases) {
    while (!leases.empty()) {
        std::size_t count = leases.size();
        for (; count > 1 && entriesOf(leases.first(count)) > Leases::kMostEntriesAtOnce; count /= 2) {
        }
        const std::span<Lease* const> together = leases.first(count);
        text_.arguments().renewed(*together.front()->check, entriesOf(together));
        for (const Lease* lease : together) {
            forEachMember(lease->check->cost, lease->unique,
                          [&](std::string_view member) { text_.arguments().member(member); });
        }
        leases = leases.subspan(count);
    }
}

}  // namespace sliding_log
