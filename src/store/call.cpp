#include "store/call.hpp"

#include <algorithm>

#include "limit/number.hpp"
#include "limit/options_text.hpp"
#include "redis/resp.hpp"
#include "redis/scripts.hpp"
#include "store/node.hpp"

namespace sliding_log {

namespace {

/// True when a script is told the same of two logs, but for their keys.
bool areAlike(const Question& left, const Question& right) {
    return left.limit == right.limit && left.windowMs == right.windowMs && left.cap == right.cap &&
           left.ttlMs == right.ttlMs && OptionsText(left).view() == OptionsText(right).view();
}

}  // namespace

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
    latest_.reset();
    keys_.clear();
    arguments_.clear();
    keyCount_ = argumentCount_ = 0;
    work_ = 0;
}

bool CallWriter::hasRoomFor(const Group& group) const {
    return keyCount_ == 0 || (work_ + group.work() <= kMostWorkPerCall && group.slot == call_->slot &&
                              group.algorithm == call_->algorithm);
}

/// What the scripts want to know of one group: see lua/decide.lua.
void CallWriter::add(Group& group) {
    call_->groups.push_back(&group);
    work_ += group.work();
    const std::span<const Question> logs = group.waiters.front().questions;
    argument(static_cast<std::int64_t>(logs.size()));
    argument(static_cast<std::int64_t>(group.requests));
    std::size_t place = 0;
    group.waiters.forEach([&](Waiter& waiter) {
        waiter.place = place++;
        addName(waiter.unique);
    });
    for (std::size_t i = 0; i < logs.size(); i++) {
        addLog(logs[i]);
        if (logs[i].named) {
            group.waiters.forEach([&](Waiter& waiter) { argument(waiter.questions[i].id); });
        }
    }
}

/// Only where an entry is a member of a ZSET, which needs a name.
void CallWriter::addName(std::string_view unique) {
    argument(rowOf(call_->algorithm).namesEntries ? unique : std::string_view());
}

void CallWriter::addLog(const Question& question) {
    appendArgument(keys_, question.key);
    keyCount_++;
    if (latest_ && areAlike(*latest_, question)) {
        argument(std::string_view());
        return;
    }
    latest_ = question;
    argument(question.limit);
    argument(question.windowMs);
    argument(question.cap);
    argument(question.ttlMs);
    argument(OptionsText(question).view());
}

void CallWriter::finish(std::string_view now) {
    finish({now});
}

void CallWriter::writeTakeBack(Call& call, std::span<const Question> questions, std::string_view unique,
                               std::uint64_t loggedMs, std::uint64_t takenMs, std::string_view now) {
    begin(call, questions.front().algorithm, questions.front().slot);
    argument(static_cast<std::int64_t>(questions.size()));
    argument(std::int64_t{1});
    addName(unique);
    for (const Question& question : questions) {
        addLog(question);
        if (question.named) {
            argument(question.id);
        }
    }
    finish({"take back", now, DecimalText(static_cast<std::int64_t>(loggedMs)).view(),
            DecimalText(static_cast<std::int64_t>(takenMs)).view()});
}

void CallWriter::freeMemory() {
    std::string().swap(keys_);  // one that is assigned keeps its memory
    std::string().swap(arguments_);
}

/// `EVALSHA <sha> <keys>`, the arguments that are given and those that were added.
void CallWriter::finish(std::initializer_list<std::string_view> first) {
    std::string& out = call_->command;
    beginCommand(out, 3 + keyCount_ + first.size() + argumentCount_);
    appendArgument(out, "EVALSHA");
    appendArgument(out, scriptSha(call_->algorithm));
    appendArgument(out, static_cast<std::int64_t>(keyCount_));
    out.append(keys_);
    for (std::string_view argument : first) {
        appendArgument(out, argument);
    }
    out.append(arguments_);
}

}  // namespace sliding_log
