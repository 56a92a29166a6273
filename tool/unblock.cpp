// unblock: ends the block of one log, and forgets its blocks; the entries stay.
#include <array>

#include "blocks.hpp"
#include "command.hpp"
#include "forms.hpp"
#include "json.hpp"
#include "limit/block_form.hpp"
#include "target.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::array kUnblockOptions = {kSecretOption};

/// A STRING (algorithm=compact) is only changed while it is in its blocked form: the block then has ended in 1970. The
/// next request writes the log in its other form.
void endInString(Store& store, const std::string& key) {
    static const std::string ended("\0\0\0\0\0\1", 6);
    constexpr int kMostAttempts = 100;  // a busy log changes between two of these commands
    for (int i = 0; i < kMostAttempts; i++) {
        const std::array<Command, 2> begin = {{{"WATCH", key}, *blockQuery("string", key)}};
        const std::vector<Reply> found = store.ask(key, begin);
        checked(found[0], "WATCH");
        const bool isBlocked = blockIn("string", checked(found[1], "GETRANGE")).has_value();
        const std::array<Command, 3> end = {
            {{"MULTI"}, isBlocked ? Command{"SETRANGE", key, "1", ended} : Command{"PTTL", key}, {"EXEC"}}};
        const std::vector<Reply> replies = store.ask(key, end);
        if (!checked(replies.back(), "EXEC").isNil()) {
            checked(replies.back()[0], "SETRANGE");
            return;
        }
    }
    throw CouldNotAsk("the log changes too often: try again");
}

void endBlock(Store& store, const std::string& key, std::string_view type) {
    if (type == "string") {
        endInString(store, key);
        return;
    }
    const Command command = type == "zset" ? Command{"ZREMRANGEBYSCORE", key, "-inf", "(0"}
                                           : Command{"HDEL", key, std::string(kBlockedUntil), std::string(kBlockedFor)};
    checked(store.ask(key, command), command.front());
}

Status runUnblock(const Context& context) {
    const std::string target = targetKey(context);
    Store store(context.settings);
    const std::string key = wholeKey(store, context, target);
    const std::string shown = context.shown(key);
    const std::array<Command, 2> questions = {{{"TYPE", key}, {"TIME"}}};
    const std::vector<Reply> replies = store.ask(key, questions);
    const std::string type(checked(replies[0], "TYPE").text());
    const std::int64_t nowMs = timeIn(checked(replies[1], "TIME"));
    std::optional<Block> block;
    if (const std::optional<Command> query = blockQuery(type, key)) {
        const Reply found = store.ask(key, *query);
        block = blockIn(type, checked(found, query->front()));
    }
    if (block) {
        endBlock(store, key, type);
    }
    const Reply forgotten = store.ask(memoryKey(key), {"UNLINK", memoryKey(key)});
    const bool hasForgotten = checked(forgotten, "UNLINK").numberOr(0) > 0;
    const bool hasEnded = block && block->untilMs > nowMs;
    if (context.json) {
        Json out;
        out.beginObject()
            .bytes("key", shown)
            .name("unblocked")
            .boolean(hasEnded)
            .name("forgotten")
            .boolean(hasForgotten);
        print(out.endObject().line() + "\n");
    } else if (hasEnded) {
        print(
            "unblocked " + printable(shown) + ", which was blocked until " + isoTime(block->untilMs) +
            "\nits log stays: if it has no room, the next request begins a block again; sliding-log reset removes it\n"
            "nginx nodes may deny this client from memory for up to a second\n");
    } else {
        print(printable(shown) + " is not blocked" + (hasForgotten ? "; its last block was forgotten" : "") + "\n");
    }
    return hasEnded || hasForgotten ? Status::Ok : Status::Warning;
}

}  // namespace

const ToolCommand kUnblock = {"unblock", "NAME VALUE | KEY", "ends the block of a client, and forgets the last one",
                              kUnblockOptions, runUnblock};

}  // namespace sliding_log::tool
