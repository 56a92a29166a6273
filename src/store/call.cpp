#include "store/call.hpp"

#include <algorithm>

#include "redis/scripts.hpp"
#include "store/node.hpp"

namespace sliding_log {

void Call::replied(const redisReply* reply) {
    node->replied(*this, reply);
}

bool Call::isWaitedFor() const {
    return std::ranges::any_of(groups, [](const Group* group) { return !group->waiters.isEmpty(); });
}

std::size_t Call::requests() const {
    std::size_t sum = 0;
    for (const Group* group : groups) {
        sum += group->requests;
    }
    return sum;
}

void CallWriter::begin(Call& call, Algorithm algorithm, std::uint16_t slot) {
    call.algorithm = algorithm;
    call.slot = slot;
    call.asking = call.isPart = call.isOnWire = call.isRepaid = false;
    call.scriptMisses = call.repetitions = 0;
    call.groups.clear();
    call.command.clear();
    call_ = &call;
    texts_.keys.clear();
    texts_.arguments.clear();
    texts_.keyCount = texts_.argumentCount = 0;
    work_ = 0;
}

bool CallWriter::hasRoomFor(const Group& group) const {
    return call_->groups.empty() || (work_ + group.work() <= kMostWorkPerCall && group.slot == call_->slot &&
                                     group.algorithm == call_->algorithm);
}

void CallWriter::add(Group& group) {
    call_->groups.push_back(&group);
    work_ += group.work();
}

/// It is known only when all groups are there.
bool CallWriter::isPlain() const {
    Group& first = *call_->groups.front();
    const std::span<const Question> logs = first.waiters.front().questions;
    return call_->groups.size() == 1 && first.requests == 1 && logs.size() == 1 && now_.empty() &&
           sliding_log::isPlain(logs.front());
}

void CallWriter::finish() {
    if (isPlain()) {
        Waiter& waiter = call_->groups.front()->waiters.front();
        waiter.place = 0;
        arguments_.plain(waiter.questions.front(), waiter.unique);
    } else {
        arguments_.decide(call_->algorithm, now_);
        for (Group* group : call_->groups) {
            write(*group);
        }
    }
    writeCommand();
}

void CallWriter::write(Group& group) {
    const std::span<const Question> logs = group.waiters.front().questions;
    arguments_.group(logs.size(), group.requests);
    std::size_t place = 0;
    group.waiters.forEach([&](Waiter& waiter) {
        waiter.place = place++;
        arguments_.request(waiter.unique);
    });
    for (std::size_t i = 0; i < logs.size(); i++) {
        arguments_.log(logs[i]);
        if (logs[i].named) {
            group.waiters.forEach([&](Waiter& waiter) { arguments_.id(waiter.questions[i].id); });
        }
    }
}

void CallWriter::writeTakeBack(Call& call, std::span<const Question> questions, std::string_view unique,
                               std::uint64_t loggedMs, std::uint64_t takenMs, std::string_view now) {
    const Question& first = questions.front();
    begin(call, first.algorithm, first.slot);
    arguments_.takeBack(first.algorithm, now, loggedMs, takenMs);
    arguments_.group(questions.size(), 1);
    arguments_.request(unique);
    for (const Question& question : questions) {
        arguments_.log(question);
        if (question.named) {
            arguments_.id(question.id);
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
