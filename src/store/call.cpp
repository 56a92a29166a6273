#include "store/call.hpp"

#include <algorithm>

#include "redis/scripts.hpp"

namespace sliding_log {

bool Call::isWaitedFor() const {
    return std::ranges::any_of(batches, [](const Batch* batch) { return !batch->waiters.isEmpty(); });
}

std::size_t Call::requests() const {
    std::size_t sum = 0;
    for (const Batch* batch : batches) {
        sum += batch->requests;
    }
    return sum;
}

void CallWriter::begin(Call& call, Algorithm algorithm, std::uint16_t hashSlot) {
    call.algorithm = algorithm;
    call.hashSlot = hashSlot;
    call.asking = call.isPart = call.isOnWire = call.wasKept = false;
    call.scriptMisses = call.repetitions = 0;
    call.batches.clear();
    call.command.clear();
    call_ = &call;
    texts_.keys.clear();
    texts_.arguments.clear();
    texts_.keyCount = texts_.argumentCount = 0;
    work_ = 0;
}

bool CallWriter::hasRoomFor(const Batch& batch) const {
    return call_->batches.empty() || (work_ + batch.work() <= kMostWorkPerCall && batch.hashSlot == call_->hashSlot &&
                                      batch.algorithm == call_->algorithm);
}

void CallWriter::add(Batch& batch) {
    call_->batches.push_back(&batch);
    work_ += batch.work();
}

/// It is known only when all batches are there.
bool CallWriter::isPlain() const {
    const Check& first = call_->batches.front()->waiters.front().checks.front();
    return now_.empty() && std::ranges::all_of(call_->batches, [&](Batch* batch) {
               const std::span<const Check> logs = batch->waiters.front().checks;
               return batch->requests == 1 && logs.size() == 1 && batch->asked.permits.empty() &&
                      sliding_log::isPlain(logs.front()) && arePlainTogether(logs.front(), first);
           });
}

void CallWriter::finish() {
    if (isPlain()) {
        for (Batch* batch : call_->batches) {
            Waiter& waiter = batch->waiters.front();
            waiter.position = 0;
            arguments_.plainRequest(waiter.checks.front(), waiter.unique);
        }
        arguments_.plain(call_->batches.front()->waiters.front().checks.front());
    } else {
        arguments_.decide(call_->algorithm, now_);
        for (Batch* batch : call_->batches) {
            write(*batch);
        }
    }
    writeCommand();
}

void CallWriter::write(Batch& batch) {
    const std::span<const Check> logs = batch.waiters.front().checks;
    if (!batch.asked.permits.empty()) {
        batch.asked.nameAfter(batch.waiters.front().unique);
    }
    arguments_.batch(logs.size(), batch.requests);
    std::size_t position = 0;
    batch.waiters.forEach([&](Waiter& waiter) {
        waiter.position = position++;
        arguments_.request(waiter.unique);
    });
    for (std::size_t i = 0; i < logs.size(); i++) {
        arguments_.log(logs[i], batch.asked.of(i));
        if (logs[i].named) {
            batch.waiters.forEach([&](Waiter& waiter) { arguments_.id(waiter.checks[i].id); });
        }
    }
}

void CallWriter::writeTakeBack(Call& call, std::span<const Check> checks, std::string_view unique,
                               std::uint64_t loggedMs, std::uint64_t takenMs, std::string_view now) {
    const Check& first = checks.front();
    begin(call, first.algorithm, first.hashSlot);
    arguments_.takeBack(first.algorithm, now, loggedMs, takenMs);
    arguments_.batch(checks.size(), 1);
    arguments_.request(unique);
    for (const Check& check : checks) {
        arguments_.log(check);
        if (check.named) {
            arguments_.id(check.id);
        }
    }
    writeCommand();
}

void CallWriter::freeMemory() {
    std::string().swap(texts_.keys);  // one that is assigned keeps its memory
    std::string().swap(texts_.arguments);
}

/// `EVALSHA <sha> <keys>` and the arguments.
void CallWriter::writeCommand() {
    std::string& out = call_->command;
    beginCommand(out, 3 + texts_.keyCount + texts_.argumentCount);
    appendArgument(out, "EVALSHA");
    appendArgument(out, scriptSha(call_->algorithm));
    appendArgument(out, static_cast<std::int64_t>(texts_.keyCount));
    out.append(texts_.keys).append(texts_.arguments);
}

}  // namespace sliding_log
