#include "store/decision_call.hpp"

#include <algorithm>

namespace sliding_log {

bool DecisionCall::isWaitedFor() const {
    return std::ranges::any_of(batches, [](const Batch* batch) { return !batch->waiters.isEmpty(); });
}

std::size_t DecisionCall::requests() const {
    std::size_t sum = 0;
    for (const Batch* batch : batches) {
        sum += batch->requests;
    }
    return sum;
}

std::string_view DecisionCall::text() {
    if (readsRecord) {
        return command;
    }
    if (isShort) {
        return std::string_view(command).substr(shortBegin, shortEnd - shortBegin);
    }
    shortEnd = 0;
    return Call::text();
}

void DecisionCall::reset(Algorithm newAlgorithm, std::uint16_t newHashSlot) {
    Call::reset(newAlgorithm, newHashSlot);
    shortEnd = 0;
    readsRecord = isTold = false;
    batches.clear();
}

void DecisionWriter::begin(DecisionCall& call, const Batch& first, std::string_view now) {
    call.reset(first.algorithm, first.hashSlot);
    call_ = &call;
    now_ = now;
    text_.clear();
    work_ = 0;
}

bool DecisionWriter::hasRoomFor(const Batch& batch) const {
    return call_->batches.empty() || (work_ + batch.work() <= kMostWorkPerCall && batch.hashSlot == call_->hashSlot &&
                                      batch.algorithm == call_->algorithm);
}

void DecisionWriter::add(Batch& batch) {
    call_->batches.push_back(&batch);
    for (const Check& check : batch.waiters.front().checks) {
        if (check.hasOverride && check.ofName.decides()) {
            call_->variant = Call::Variant::OfName;
        } else if (check.hasOverride && !call_->hasOverride()) {
            call_->variant = Call::Variant::Override;
        }
    }
    work_ += batch.work();
}

/// It is known only when all batches are there.
std::size_t DecisionWriter::plainLogs() const {
    const std::span<const Check> first = call_->batches.front()->waiters.front().checks;
    const auto isAlike = [&](Batch* batch) {
        const std::span<const Check> logs = batch->waiters.front().checks;
        const bool isPlainRequest =
            logs.size() == 1 ? isPlain(logs.front()) : logs.size() == 2 && arePlainTwo(logs[0], logs[1]);
        return isPlainRequest && batch->requests == 1 && batch->asked.permits.empty() &&
               (logs.data() == first.data() || std::ranges::equal(logs, first, arePlainTogether));
    };
    return now_.empty() && std::ranges::all_of(call_->batches, isAlike) ? first.size() : 0;
}

void DecisionWriter::finish() {
    const std::size_t logs = plainLogs();
    if (logs == 1) {
        if (call_->batches.size() == 1) {
            writePlain(*call_->batches.front());
            return;
        }
        const bool haveCosts = std::ranges::any_of(
            call_->batches, [](Batch* batch) { return batch->waiters.front().checks.front().cost != 1; });
        noteForm(call_->batches.front()->waiters.front().checks.front(), haveCosts);
        for (Batch* batch : call_->batches) {
            Waiter& waiter = batch->waiters.front();
            waiter.position = 0;
            text_.arguments().plainRequest(waiter.checks.front(), waiter.unique, haveCosts);
        }
        text_.arguments().plain(call_->batches.front()->waiters.front().checks.front());
    } else if (logs == 2) {
        writePlainTwo();
    } else {
        text_.arguments().decide(call_->algorithm, now_);
        for (Batch* batch : call_->batches) {
            write(*batch);
        }
    }
    text_.writeTo(*call_);
}

void DecisionWriter::writePlainTwo() {
    call_->variant = Call::Variant::PlainTwo;
    for (Batch* batch : call_->batches) {
        Waiter& waiter = batch->waiters.front();
        waiter.position = 0;
        text_.arguments().plainRequestOfTwo(waiter.checks[0], waiter.checks[1], waiter.unique);
    }
    const std::span<const Check> logs = call_->batches.front()->waiters.front().checks;
    text_.arguments().plainTwo(logs[0], logs[1]);
}

/// What an older native module does not know of a plain call: costs, options, or that the algorithm has any.
void DecisionWriter::noteForm(const Check& first, bool hasCosts) {
    if (hasPlainOptions(first)) {
        call_->variant = first.hasOverride ? Call::Variant::PlainOverride : Call::Variant::PlainOptions;
    } else {
        const bool isNewer = hasCosts || !hasShortCalls(rowOf(first.algorithm));
        call_->variant = isNewer ? Call::Variant::PlainCosts : Call::Variant::Usual;
    }
}

/// A plain call of one request, which may also be a short call.
void DecisionWriter::writePlain(Batch& only) {
    Waiter& waiter = only.waiters.front();
    const Check& check = waiter.checks.front();
    waiter.position = 0;
    plain_.assign(check);
    const std::string_view beginning = plain_.shortBeginning();
    std::string& out = call_->command;
    out.resize(Call::kRoom);
    call_->shortBegin = Call::kRoom - beginning.size();
    beginning.copy(out.data() + call_->shortBegin, beginning.size());
    appendArgument(out, check.key);
    const bool isNamed = rowOf(check.algorithm).namesEntries;
    if (isNamed) {
        appendArgument(out, waiter.unique);
    }
    call_->shortEnd = beginning.empty() ? 0 : out.size();
    out.append(plain_.arguments());
    noteForm(check, check.cost != 1);
    call_->keys = 1;
    call_->words = 4 + (isNamed ? 1 : 0) + plain_.count();
}

void DecisionWriter::writeReading(DecisionCall& call, Batch& batch) {
    call.reset(batch.algorithm, batch.hashSlot);
    call.batches.push_back(&batch);
    call.variant = Call::Variant::Override;
    call.isPart = call.readsRecord = true;
    beginCommand(call.command, 2);
    appendArgument(call.command, "GET");
    const std::string_view log = batch.waiters.front().checks.front().key;
    appendArgument(call.command, std::string(log).append(kOverrideSuffix));
}

void DecisionWriter::tell(DecisionCall& call, std::string_view record, std::string_view now) {
    Batch& batch = *call.batches.front();
    const unsigned repetitions = call.repetitions;
    begin(call, batch, now);
    add(batch);
    call.isPart = call.isTold = true;
    call.repetitions = repetitions;
    text_.arguments().decide(call.algorithm, now_);
    write(batch, &record);
    text_.writeTo(*call_);
}

/// `record`: of its only log, if that is told.
void DecisionWriter::write(Batch& batch, const std::string_view* record) {
    const std::span<const Check> logs = batch.waiters.front().checks;
    if (!batch.asked.permits.empty()) {
        batch.asked.nameAfter(batch.waiters.front().unique);
    }
    text_.arguments().batch(logs.size(), batch.requests);
    std::size_t position = 0;
    batch.waiters.forEach([&](Waiter& waiter) {
        waiter.position = position++;
        text_.arguments().request(waiter.unique);
    });
    for (std::size_t i = 0; i < logs.size(); i++) {
        text_.arguments().log(logs[i], batch.asked.of(i), record != nullptr);
        if (logs[i].named) {
            batch.waiters.forEach([&](Waiter& waiter) { text_.arguments().id(waiter.checks[i].id); });
        }
        if (record != nullptr) {
            text_.arguments().record(*record);
        }
    }
}

}  // namespace sliding_log
