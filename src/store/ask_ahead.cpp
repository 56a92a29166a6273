#include "store/ask_ahead.hpp"

#include <span>

#include "servers/server.hpp"

namespace sliding_log {

void AskAhead::send(std::uint64_t now) {
    while (prefetch_.asksAhead()) {
        PermitCall& call = calls_.take(*this);
        if (!prefetch_.takeAhead(call.asked, now, timeoutMs_)) {
            calls_.recycle(call);
            return;
        }
        const Check& check = call.asked.checks.all().front();
        Server* server = store_.isQuitting() ? nullptr : store_.serverOf(check.hashSlot);
        if (server == nullptr || !server->isWell()) {
            failed(call, false);
            continue;
        }
        call.reset(check.algorithm, check.hashSlot);
        call.variant = Call::Variant::Ahead;
        text_.clear();
        text_.arguments().decide(check.algorithm, store_.stamp(check.algorithm));
        text_.arguments().permits(check, call.asked.unique.view(), call.asked.of(0), call.asked.held);
        text_.writeTo(call);
        server->send(call);
    }
}

void AskAhead::answered(PermitCall& call, const redisReply& reply, StoreError ofCall) {
    const StoreError error = ofCall == StoreError::None ? read(call, reply) : ofCall;
    switch (error) {
        case StoreError::None:
            learn_(*call.server, call.asked, reply_);
            finish(call);
            return;
        case StoreError::NotMaster:
            store_.leaveAsReadOnly(*call.server, reply);
            break;
        case StoreError::Moved:
        case StoreError::Ask:
            store_.redirectedBy(call, reply, error);  // the next call goes there
            break;
        case StoreError::Down:
        case StoreError::Timeout:
        case StoreError::NoScript:
        case StoreError::TryAgain:
        case StoreError::OutOfMemory:
        case StoreError::WrongType:
        case StoreError::Forbidden:
        case StoreError::Refused:
            break;  // a request gets this answer soon, and tells it
        case StoreError::Unexpected:
            call.server->closeAsUnreliable();
            break;
    }
    failed(call, error == StoreError::Unexpected);
}

/// Sets reply_.
StoreError AskAhead::read(const PermitCall& call, const redisReply& reply) {
    const bool isOfOne = reply.type == REDIS_REPLY_ARRAY && reply.elements == 1;
    return isOfOne ? reply_.read(*reply.element[0], 0, call.asked.checks.all(), call.asked.permits)
                   : StoreError::Unexpected;
}

void AskAhead::lost(PermitCall& call) {
    failed(call, call.isOnWire);
}

void AskAhead::failed(PermitCall& call, bool isInDoubt) {
    fail_(call.asked, isInDoubt);
    finish(call);
}

void AskAhead::finish(PermitCall& call) {
    calls_.recycle(call);
    store_.closeWhenUnused();
}

std::size_t AskAhead::freeUnused() {
    text_.freeMemory();
    return calls_.freeUnused();
}

}  // namespace sliding_log
