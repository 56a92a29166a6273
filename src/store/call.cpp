#include "store/call.hpp"

#include <algorithm>
#include <array>

#include "redis/native_command.hpp"
#include "redis/scripts.hpp"
#include "store/leases.hpp"

namespace sliding_log {

namespace {

constexpr std::string_view kEvalSha = "EVALSHA";
constexpr std::string_view kZrem = "ZREM";
constexpr std::string_view kTakeBack = "take back";

/// Of the longest beginning, all in front of the keys: that of a short call, with four numbers of 20 digits.
constexpr std::size_t kRoom = 128;
static_assert(std::ranges::all_of(kAlgorithms, [](const AlgorithmRow& row) { return row.name.size() <= 12; }));

/// Writes to memory that is large enough.
class Beginning {
  public:
    std::string_view view() const { return {text_.data(), length_}; }
    void append(std::string_view text) { length_ += text.copy(text_.data() + length_, text_.size() - length_); }

  private:
    std::array<char, kRoom> text_;
    std::size_t length_ = 0;
};

}  // namespace

std::string_view Call::text() {
    if (readsRecord) {
        return command;
    }
    if (isShort) {
        return std::string_view(command).substr(shortBegin, shortEnd - shortBegin);
    }
    shortEnd = 0;
    Beginning beginning;
    beginCommand(beginning, words);
    if (isRelease) {
        appendArgument(beginning, kZrem);
        return from(beginning.view());
    }
    appendArgument(beginning, isNative ? kNativeCommand : kEvalSha);
    appendArgument(beginning, isNative ? nameOf(algorithm) : scriptSha(algorithm));
    appendArgument(beginning, DecimalText(static_cast<std::int64_t>(keys)).view());
    return from(beginning.view());
}

/// With that beginning.
std::string_view Call::from(std::string_view beginning) {
    const std::size_t at = kRoom - beginning.size();
    beginning.copy(command.data() + at, beginning.size());
    return std::string_view(command).substr(at);
}

/// Each stands in the text in the order of the take-backs, once for each log that owes.
void Call::tellEnds() {
    std::size_t at = argumentsAt;
    for (const TakeBack* takeBack : takeBacks) {
        std::string digits(kEndedDigits, '0');
        const ngx_msec_t agoMs = std::min<ngx_msec_t>(ngx_current_msec - takeBack->ended, kLongestTimeMs);
        const DecimalText ago(static_cast<std::int64_t>(agoMs));
        ago.view().copy(digits.data() + kEndedDigits - ago.view().size(), kEndedDigits);
        for (std::size_t told = 0; told < takeBack->ends; told++) {
            at = command.find(kEndedOption, at) + kEndedOption.size();
            digits.copy(command.data() + at, kEndedDigits);
        }
    }
}

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

void CallWriter::reset(Call& call, Algorithm algorithm, std::uint16_t hashSlot) {
    call.algorithm = algorithm;
    call.hashSlot = hashSlot;
    call.asking = call.isPart = call.isOnWire = call.isPaced = call.isNative = call.leavesNative = false;
    call.hasPlainCosts = call.hasOverride = call.readsRecord = call.isTold = call.isRelease = call.isRenewal = false;
    call.isShort = call.leavesShort = call.owes = call.isStamped = false;
    call.shortEnd = 0;
    call.scriptMisses = call.repetitions = 0;
    call.batches.clear();
    call.takeBacks.clear();
    call.command.clear();
}

void CallWriter::begin(Call& call, Algorithm algorithm, std::uint16_t hashSlot) {
    reset(call, algorithm, hashSlot);
    call_ = &call;
    texts_.clear();
    work_ = 0;
}

bool CallWriter::hasRoomFor(const Batch& batch) const {
    return call_->batches.empty() || (work_ + batch.work() <= kMostWorkPerCall && batch.hashSlot == call_->hashSlot &&
                                      batch.algorithm == call_->algorithm);
}

void CallWriter::add(Batch& batch) {
    call_->batches.push_back(&batch);
    call_->hasOverride = call_->hasOverride || std::ranges::any_of(batch.waiters.front().checks, &Check::hasOverride);
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
        if (call_->batches.size() == 1) {
            writePlain(*call_->batches.front());
            return;
        }
        call_->hasPlainCosts = std::ranges::any_of(
            call_->batches, [](Batch* batch) { return batch->waiters.front().checks.front().cost != 1; });
        for (Batch* batch : call_->batches) {
            Waiter& waiter = batch->waiters.front();
            waiter.position = 0;
            arguments_.plainRequest(waiter.checks.front(), waiter.unique, call_->hasPlainCosts);
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

/// A plain call of one request, also as a short call.
void CallWriter::writePlain(Batch& only) {
    Waiter& waiter = only.waiters.front();
    const Check& check = waiter.checks.front();
    waiter.position = 0;
    plain_.assign(check);
    const std::string_view beginning = plain_.shortBeginning();
    std::string& out = call_->command;
    out.resize(kRoom);
    call_->shortBegin = kRoom - beginning.size();
    beginning.copy(out.data() + call_->shortBegin, beginning.size());
    appendArgument(out, check.key);
    const bool isNamed = rowOf(check.algorithm).namesEntries;
    if (isNamed) {
        appendArgument(out, waiter.unique);
    }
    call_->shortEnd = out.size();
    out.append(plain_.arguments());
    call_->hasPlainCosts = check.cost != 1;
    call_->keys = 1;
    call_->words = 4 + (isNamed ? 1 : 0) + plain_.count();
}

void CallWriter::writeReading(Call& call, Batch& batch) {
    reset(call, batch.algorithm, batch.hashSlot);
    call.batches.push_back(&batch);
    call.isPart = call.hasOverride = call.readsRecord = true;
    beginCommand(call.command, 2);
    appendArgument(call.command, "GET");
    const std::string_view log = batch.waiters.front().checks.front().key;
    appendArgument(call.command, std::string(log).append(kOverrideSuffix));
}

void CallWriter::tell(Call& call, std::string_view record, std::string_view now) {
    Batch& batch = *call.batches.front();
    const unsigned repetitions = call.repetitions;
    begin(call, batch, now);
    add(batch);
    call.isPart = call.isTold = true;
    call.repetitions = repetitions;
    arguments_.decide(call.algorithm, now_);
    write(batch, &record);
    writeCommand();
}

/// `record`: of its only log, if that is told.
void CallWriter::write(Batch& batch, const std::string_view* record) {
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
        arguments_.log(logs[i], batch.asked.of(i), record != nullptr);
        if (logs[i].named) {
            batch.waiters.forEach([&](Waiter& waiter) { arguments_.id(waiter.checks[i].id); });
        }
        if (record != nullptr) {
            arguments_.record(*record);
        }
    }
}

void CallWriter::writeTakeBack(TakeBack& takeBack, std::span<const Check> checks, std::string_view unique,
                               std::uint64_t loggedMs, std::uint64_t takenMs) {
    texts_.clear();
    arguments_.takeBack(checks.front().algorithm, loggedMs, takenMs);
    arguments_.batch(checks.size(), 1);
    arguments_.request(unique);
    for (Check check : checks) {
        check.hasOverride = false;
        arguments_.log(check);
        if (check.named) {
            arguments_.id(check.id);
        }
    }
    takeBack.keys.assign(texts_.keys);
    takeBack.arguments.assign(texts_.arguments);
    takeBack.logs = texts_.keyCount;
    takeBack.words = texts_.argumentCount;
    takeBack.ends = 0;
    for (std::size_t at = 0; takeBack.owes && (at = takeBack.arguments.find(kEndedOption, at)) != std::string::npos;
         at++) {
        takeBack.ends++;
    }
}

void CallWriter::writeRelease(TakeBack& takeBack, const Check& check, std::string_view unique) {
    takeBack.isRelease = true;
    takeBack.keys.clear();
    appendArgument(takeBack.keys, check.key);
    takeBack.arguments.clear();
    takeBack.logs = 1;
    takeBack.words = 0;
    forEachMember(check.cost, unique, [&](std::string_view member) {
        appendArgument(takeBack.arguments, member);
        takeBack.words++;
    });
}

void CallWriter::writeTakeBacks(Call& call, std::span<TakeBack* const> takeBacks, std::string_view now) {
    const TakeBack& first = *takeBacks.front();
    reset(call, first.algorithm, first.hashSlot);
    call.takeBacks.assign(takeBacks.begin(), takeBacks.end());
    call.isRelease = first.isRelease;
    call.isStamped = !now.empty();
    call.keys = call.members = call.words = 0;
    call.command.resize(kRoom);
    for (const TakeBack* each : takeBacks) {
        call.owes = call.owes || each->owes;
        if (!first.isRelease || call.keys == 0) {
            call.command.append(each->keys);
            call.keys += each->logs;
        }
        call.words += each->words;
    }
    call.members = call.words;
    call.argumentsAt = call.command.size();
    call.words += call.keys + 1;  // ZREM
    if (!first.isRelease) {
        appendArgument(call.command, kTakeBack);
        appendArgument(call.command, now);
        call.words += 4;  // and EVALSHA, the script, the number of keys
    }
    for (const TakeBack* each : takeBacks) {
        call.command.append(each->arguments);
    }
    if (call.owes) {
        call.tellEnds();
    }
}

void CallWriter::beginRenewal(Call& call, const Check& first) {
    begin(call, first.algorithm, first.hashSlot);
    call.isRenewal = true;
    arguments_.renew();
}

void CallWriter::renew(std::span<Lease* const> leases) {
    while (!leases.empty()) {
        std::size_t count = leases.size();
        for (; count > 1 && entriesOf(leases.first(count)) > Leases::kMostEntriesAtOnce; count /= 2) {
        }
        const std::span<Lease* const> together = leases.first(count);
        arguments_.renewed(*together.front()->check, entriesOf(together));
        for (const Lease* lease : together) {
            forEachMember(lease->check->cost, lease->unique,
                          [&](std::string_view member) { arguments_.member(member); });
        }
        leases = leases.subspan(count);
    }
}

void CallWriter::freeMemory() {
    std::string().swap(texts_.keys);  // one that is assigned keeps its memory
    std::string().swap(texts_.arguments);
}

/// The keys and the arguments, behind what text() writes.
void CallWriter::writeCommand() {
    std::string& out = call_->command;
    call_->keys = texts_.keyCount;
    call_->words = 3 + texts_.keyCount + texts_.argumentCount;
    out.resize(kRoom);
    out.append(texts_.keys).append(texts_.arguments);
}

}  // namespace sliding_log
