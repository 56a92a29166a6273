#include "store/call.hpp"

#include <algorithm>

#include "redis/resp.hpp"
#include "store/node.hpp"

namespace sliding_log {

namespace {

/// One call's size: a script of 64 logs takes about a millisecond, in which Redis serves nobody else.
constexpr std::size_t kMostLogsPerCall = 64;

void reset(Call& call, Script script, std::uint16_t slot) {
    call.script = script;
    call.slot = slot;
    call.asking = false;
    call.scriptMisses = call.repetitions = 0;
    call.groups.clear();
    call.command.clear();
}

/// `EVALSHA <sha> <keys>`, for a call of so many keys and arguments.
void beginEval(Call& call, std::size_t keys, std::size_t arguments) {
    beginCommand(call.command, 3 + keys + arguments);
    appendArgument(call.command, "EVALSHA");
    appendArgument(call.command, scriptSha(call.script));
    appendArgument(call.command, static_cast<std::int64_t>(keys));
}

}  // namespace

void Call::replied(const redisReply* reply) {
    node->replied(*this, reply);
}

bool Call::isWaitedFor() const {
    return std::ranges::any_of(groups, [](const Group* group) { return !group->waiters.isEmpty(); });
}

void CallWriter::begin(Call& call, const Group& first) {
    reset(call, scriptOf(first.algorithm), first.slot);
    call_ = &call;
    keys_.clear();
    arguments_.clear();
    keyCount_ = argumentCount_ = 0;
}

bool CallWriter::hasRoomFor(const Group& group) const {
    return keyCount_ == 0 || (keyCount_ + group.logs <= kMostLogsPerCall && group.slot == call_->slot &&
                              scriptOf(group.algorithm) == call_->script);
}

/// What the scripts want to know of one group: see lua/sliding_log.lua.
void CallWriter::add(Group& group) {
    call_->groups.push_back(&group);
    const std::span<const Question> logs = group.waiters.front().questions;
    appendArgument(arguments_, static_cast<std::int64_t>(logs.size()));
    appendArgument(arguments_, static_cast<std::int64_t>(group.requests));
    std::size_t place = 0;
    group.waiters.forEach([&](Waiter& waiter) {
        waiter.place = place++;
        appendArgument(arguments_, waiter.unique);
    });
    argumentCount_ += 2 + group.requests;
    for (std::size_t i = 0; i < logs.size(); i++) {
        appendArgument(keys_, logs[i].key);
        appendArgument(arguments_, logs[i].limit);
        appendArgument(arguments_, logs[i].windowMs);
        appendArgument(arguments_, logs[i].cap);
        appendArgument(arguments_, logs[i].ttlMs);
        appendArgument(arguments_, logs[i].named ? "1" : "0");
        argumentCount_ += 5;
        if (logs[i].named) {
            group.waiters.forEach([&](Waiter& waiter) { appendArgument(arguments_, waiter.questions[i].id); });
            argumentCount_ += group.requests;
        }
    }
    keyCount_ += logs.size();
}

void CallWriter::finish(std::string_view now) {
    beginEval(*call_, keyCount_, 1 + argumentCount_);
    call_->command.append(keys_);
    appendArgument(call_->command, now);
    call_->command.append(arguments_);
}

void CallWriter::writeUndo(Call& call, std::span<const Question> questions, std::string_view unique,
                           std::uint64_t loggedMs) {
    const bool named = questions.front().algorithm == Algorithm::Log;
    reset(call, named ? Script::SlidingLogUndo : Script::CompactLog, questions.front().slot);
    beginEval(call, questions.size(), named ? 1 + questions.size() : 2);
    for (const Question& question : questions) {
        appendArgument(call.command, question.key);
    }
    if (!named) {
        appendArgument(call.command, "take back");
        appendArgument(call.command, static_cast<std::int64_t>(loggedMs));
        return;
    }
    appendArgument(call.command, unique);
    for (const Question& question : questions) {
        appendArgument(call.command, question.id);
    }
}

}  // namespace sliding_log
