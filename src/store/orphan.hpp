// A check whose request does not wait for the reply any more: the client has left, or it has timed out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "node/check_copies.hpp"
#include "store/batch.hpp"

namespace sliding_log {

struct Orphan;

/// What a request that continues without a reply knows of it: whether its entries were logged. It is owned by the
/// request, which detaches it when it ends.
struct LateReply {
    enum class State {
        Open,    // not known yet
        Logged,  // at loggedMs
        Void,    // not logged
        Unknown  // will never be known
    };

    explicit LateReply(Orphan& of);
    void detach();

    State state = State::Open;
    std::uint64_t loggedMs = 0;
    Orphan* orphan;             // while Open
    LateReply* next = nullptr;  // of the same request
};

/// Replaces the request in its batch, with copies of the data of the request, so that its entries can be taken back if
/// they were logged. It is owned by its store and reused.
struct Orphan final : Waiter {
    /// Replaces a waiter whose batch has been sent.
    void replace(Waiter& waiter) {
        ownUnique.assign(waiter.unique);
        unique = ownUnique;
        ownChecks.assign(waiter.checks);
        checks = ownChecks.all();
        ownVerdicts.assign(checks.size(), {});
        leaving.assign(checks.size(), false);
        verdicts = ownVerdicts;
        position = waiter.position;
        apart = false;
        deadline = waiter.deadline;
        batch = waiter.batch;
        batch->orphans.pushBack(*this);
        late = nullptr;
        waiter.detach();
    }

    /// Its entry in that log has to be removed.
    void markLeaving(std::string_view key) {
        leaving[static_cast<std::size_t>(std::ranges::find(checks, key, &Check::key) - checks.begin())] = true;
    }

    /// The checks whose entries have to be removed, or all. An override that allows has logged none.
    std::span<const Check> leavers(bool all) {
        const std::span<Check> own = ownChecks.all();
        std::size_t kept = 0;
        for (std::size_t i = 0; i < own.size(); i++) {
            if ((all || leaving[i]) && !ownVerdicts[i].override.decides()) {
                own[kept++] = own[i];
            }
        }
        return own.first(kept);
    }

    LateReply* late = nullptr;  // to be informed
    bool takesBack = false;     // some of its entries have to be removed

    std::string ownUnique;
    CheckCopies ownChecks;
    std::vector<Verdict> ownVerdicts;
    std::vector<bool> leaving;
};

inline LateReply::LateReply(Orphan& of) : orphan(&of) {
    of.late = this;
}

inline void LateReply::detach() {
    if (state == State::Open) {
        state = State::Void;
        orphan->late = nullptr;
    }
}

}  // namespace sliding_log
