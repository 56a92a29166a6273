// A module of Redis and Valkey that decides as the scripts in lua/ do, on the same keys in the same forms, with the
// same replies:
//
//   sliding_log.2 ALGORITHM NUMKEYS key... argument...
//
// with the KEYS and ARGV of that algorithm's script, or a short call, see arguments.hpp. The number changes with the
// arguments and the stored forms: a module that gives them another meaning has another command. An older module answers
// a call that it does not know with an error. Effects are replicated, and written to the AOF, as plain commands.
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "bucket_log.hpp"
#include "compact_log.hpp"
#include "counter_log.hpp"
#include "frame.hpp"
#include "inflight_log.hpp"
#include "plain.hpp"
#include "quota_log.hpp"
#include "redis.hpp"
#include "redis_module.hpp"
#include "unload.hpp"
#include "zset_log.hpp"

namespace sliding_log::native {

namespace {

constexpr const char* kCommand = "sliding_log.2";
constexpr int kFewestWords = 3;

template <typename Form>
void decide(Redis& redis, Clock& clock, const Arguments& arguments) {
    Frame<Form>(redis, clock, arguments).reply();
}

struct PlainOutcome {
    bool isDecided = false;  // otherwise the frame decides
    PlainReply reply;
    std::string error;
};

void reply(const Redis& redis, const PlainOutcome& outcome) {
    RedisModuleCtx* context = redis.context();
    if (!outcome.error.empty()) {
        api::ReplyWithError(context, outcome.error.c_str());
        return;
    }
    const PlainReply& reply = outcome.reply;
    api::ReplyWithArray(context, 5);
    api::ReplyWithLongLong(context, reply.admitted ? 1 : 0);
    for (double number : {reply.now, reply.remaining, reply.reset, reply.retry}) {
        api::ReplyWithLongLong(context, integerOf(number));
    }
}

/// The reply to a short call: the numbers as one text.
void replyShortly(const Redis& redis, const PlainReply& reply) {
    std::array<char, 5 * 21> text;
    char* end = text.data();
    *end++ = reply.admitted ? '1' : '0';
    for (double number : {reply.now, reply.remaining, reply.reset, reply.retry}) {
        *end++ = ' ';
        end = std::to_chars(end, text.data() + text.size(), integerOf(number)).ptr;
    }
    api::ReplyWithStringBuffer(redis.context(), text.data(), static_cast<std::size_t>(end - text.data()));
}

/// True if an earlier request for the same log is left to the frame. This one is left to it, too, since requests of one
/// log are decided in their order. Without costs the requests are alike, so their order does not matter.
bool isBehindLeft(const Arguments& arguments, std::span<const PlainOutcome> before) {
    const std::size_t first = arguments.firstKey();
    for (std::size_t i = 0; arguments.hasPlainCosts() && i < before.size(); i++) {
        if (!before[i].isDecided && arguments.text(first + i) == arguments.text(first + before.size())) {
            return true;
        }
    }
    return false;
}

template <typename Decide>
PlainOutcome outcomeOf(std::size_t request, Decide&& decide) {
    PlainOutcome outcome;
    try {
        outcome.isDecided = decide(request, outcome.reply);
    } catch (const Error& error) {
        outcome.error = error.text;
        outcome.isDecided = true;
    }
    return outcome;
}

/// One reply for each request. The frame decides those that are left to it.
template <typename Form>
void replyToEach(Redis& redis, Clock& clock, Arguments& arguments, std::span<const PlainOutcome> outcomes) {
    api::ReplyWithArray(redis.context(), static_cast<long>(outcomes.size()));
    std::optional<Frame<Form>> frame;
    for (std::size_t i = 0; i < outcomes.size(); i++) {
        if (outcomes[i].isDecided) {
            reply(redis, outcomes[i]);
            continue;
        }
        if (!frame) {
            frame.emplace(redis, clock, arguments);
        }
        frame->replyTo(arguments.leavePlain(i));
    }
}

/// Decides a plain call: first all requests in usual cases, then the others.
template <typename Form, typename Decide>
void decidePlain(Redis& redis, Clock& clock, Arguments& arguments, Decide&& decide) {
    if (arguments.isShort()) {
        const PlainOutcome only = outcomeOf(0, decide);
        if (only.isDecided && only.error.empty()) {
            replyShortly(redis, only.reply);
        } else {
            replyToEach<Form>(redis, clock, arguments, {&only, 1});
        }
        return;
    }
    std::vector<PlainOutcome> outcomes;
    outcomes.reserve(arguments.keys());
    for (std::size_t i = 0; i < arguments.keys(); i++) {
        outcomes.push_back(isBehindLeft(arguments, outcomes) ? PlainOutcome() : outcomeOf(i, decide));
    }
    replyToEach<Form>(redis, clock, arguments, outcomes);
}

void decidePlainByAlgorithm(Redis& redis, Clock& clock, Arguments& arguments) {
    const Settings& asked = arguments.plainSettings();
    const auto decideLog = [&](std::size_t i, PlainReply& reply) {
        return decidePlainLog(redis, clock, asked, arguments.key(i), arguments.plainName(i), reply);
    };
    if (arguments.algorithm() == Algorithm::Log) {
        decidePlain<ZsetLog>(redis, clock, arguments, decideLog);
    } else if (arguments.algorithm() == Algorithm::Inflight) {
        decidePlain<InflightLog>(redis, clock, arguments, decideLog);
    } else {
        decidePlain<CompactLog>(redis, clock, arguments, [&](std::size_t i, PlainReply& reply) {
            return decidePlainCompact(redis, clock, asked, arguments.key(i), arguments.plainCost(i), reply);
        });
    }
}

void decideByAlgorithm(Redis& redis, Clock& clock, const Arguments& arguments) {
    switch (arguments.algorithm()) {
        case Algorithm::Log:
        case Algorithm::Sampled:
            return decide<ZsetLog>(redis, clock, arguments);
        case Algorithm::Compact:
            return decide<CompactLog>(redis, clock, arguments);
        case Algorithm::Counter:
            return decide<CounterLog>(redis, clock, arguments);
        case Algorithm::Bucket:
            return decide<BucketLog>(redis, clock, arguments);
        case Algorithm::Quota:
            return decide<QuotaLog>(redis, clock, arguments);
        case Algorithm::Inflight:
            return decide<InflightLog>(redis, clock, arguments);
    }
}

/// Redis calls the command to learn where its keys are.
int tellKeys(RedisModuleCtx* context, RedisModuleString** words, int count) {
    constexpr auto kFlags = static_cast<int>(api::kKeysReadWrite | api::kKeysAccess | api::kKeysUpdate);
    Arguments arguments(words, count);
    if (count >= kFewestWords) {
        arguments.findKeys();
    }
    for (std::size_t i = 0; i < arguments.keys(); i++) {
        api::KeyAtPosWithFlags(context, static_cast<int>(arguments.firstKey() + i), kFlags);
    }
    return api::kOk;
}

int command(RedisModuleCtx* context, RedisModuleString** words, int count) {
    if (api::IsKeysPositionRequest(context) != 0) {
        return tellKeys(context, words, count);
    }
    if (count < kFewestWords) {
        return api::WrongArity(context);
    }
    if (isWithdrawn()) {
        return api::ReplyWithError(context, kWithdrawn);
    }
    Arguments arguments(words, count);
    if (const char* error = arguments.read(); error != nullptr) {
        return api::ReplyWithError(context, error);
    }
    Redis redis(context);
    const long long server = api::Milliseconds();
    Clock clock{.now = arguments.hasNow() ? arguments.now() : static_cast<double>(server),
                .isOwn = !arguments.hasNow(),
                .server = server};
    if (arguments.isRenewal()) {
        renew(redis, clock, arguments);
    } else if (arguments.isPlain()) {
        decidePlainByAlgorithm(redis, clock, arguments);
    } else {
        decideByAlgorithm(redis, clock, arguments);
    }
    return api::kOk;
}

/// The command of an older module, whose stored forms are others. It exists for the rules of ACL users that name it:
/// Redis does not start with a rule of an unknown command. nginx of that version goes on with the scripts.
int olderCommand(RedisModuleCtx* context, RedisModuleString**, int) {
    return api::ReplyWithError(context, "ERR unknown command 'sliding_log.1': the module is newer");
}

/// Describes the command, and the keys of all but short calls, for COMMAND INFO. Redis itself asks tellKeys(), since
/// the flags say that the description of the keys is incomplete.
bool describe(RedisModuleCtx* context) {
    static const api::CommandInfoVersion version{.version = 1,
                                                 .sizeOfHistoryEntry = 2 * sizeof(char*),
                                                 .sizeOfKeySpec = sizeof(api::KeySpec),
                                                 .sizeOfArgument = 0};
    api::KeySpec keys[2] = {};
    keys[0].flags =
        api::kKeysReadWrite | api::kKeysAccess | api::kKeysUpdate | api::kKeysIncomplete | api::kKeysVariable;
    keys[0].beginSearch = api::kBeginAtIndex;
    keys[0].begin.index.position = 2;
    keys[0].findKeys = api::kFindByNumber;
    keys[0].find.keyNumber = {.numberIndex = 0, .firstKey = 1, .step = 1};
    const api::CommandInfo info{.version = &version,
                                .summary = "Decides requests by their logs.",
                                .complexity = "O(1) for each log, as a rule",
                                .since = "1",
                                .history = nullptr,
                                .tips = nullptr,
                                .arity = -kFewestWords,
                                .keySpecs = keys,
                                .arguments = nullptr};
    RedisModuleCommand* command = api::GetCommand(context, kCommand);
    return command != nullptr && api::SetCommandInfo(command, &info) == api::kOk &&
           (api::SetCommandACLCategories == nullptr || api::SetCommandACLCategories(command, "write") == api::kOk);
}

}  // namespace

}  // namespace sliding_log::native

extern "C" __attribute__((visibility("default"))) int RedisModule_OnLoad(RedisModuleCtx* context, RedisModuleString**,
                                                                         int) {
    using namespace sliding_log;
    if (!api::load(context)) {
        return 1;
    }
    native::clearWithdrawn();
    api::SetModuleAttribs(context, "sliding_log", 1, api::kVersion);
    const bool isReady =
        api::CreateCommand(context, native::kCommand, native::command, "write getkeys-api", 0, 0, 0) == api::kOk &&
        native::describe(context) &&
        api::CreateCommand(context, "sliding_log.1", native::olderCommand, "write", 0, 0, 0) == api::kOk;
    return isReady ? api::kOk : 1;
}

extern "C" __attribute__((visibility("default"))) int RedisModule_OnUnload(RedisModuleCtx* context) {
    using namespace sliding_log;
    return native::mayUnload(context) ? api::kOk : 1;
}
