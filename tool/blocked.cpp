// blocked: lists who is blocked (block=), and until when.
#include <algorithm>
#include <array>
#include <map>

#include "blocks.hpp"
#include "command.hpp"
#include "forms.hpp"
#include "json.hpp"
#include "progress.hpp"
#include "scan.hpp"
#include "table.hpp"
#include "target.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::array kBlockedOptions = {
    kPauseOption,
    kForOption,
    kSecretOption,
};

struct Blocked {
    Block block;
    std::int64_t nowMs;                // by the clock of its server
    std::optional<std::int64_t> step;  // if block= has several times

    std::int64_t restMs() const { return block.untilMs - nowMs; }
};

using BlockedKeys = std::map<std::string, Blocked>;

/// The keys of these that are blocked; those of one type are asked alike.
BlockedKeys blockedOf(Store& store, const Endpoint& where, const std::vector<std::string>& keys) {
    const std::vector<Reply> types = store.typesOf(where, keys);
    std::vector<std::string> asked;
    std::vector<std::string_view> kinds;
    std::vector<Command> queries;
    for (std::size_t i = 0; i < keys.size(); i++) {
        const std::string_view type = checked(types[i], "TYPE").text();
        if (std::optional<Command> query = blockQuery(type, keys[i])) {
            asked.push_back(keys[i]);
            kinds.push_back(type);
            queries.push_back(std::move(*query));
        }
    }
    const std::vector<Reply> replies = store.askEach(where, asked, queries);
    const Reply time = store.at(where).ask({"TIME"});
    const std::int64_t nowMs = timeIn(checked(time, "TIME"));
    BlockedKeys blocked;
    for (std::size_t i = 0; i < asked.size(); i++) {
        const std::optional<Block> block = blockIn(kinds[i], replies[i]);
        if (block && block->untilMs > nowMs) {
            blocked.insert_or_assign(asked[i], Blocked{*block, nowMs, std::nullopt});
        }
    }
    return blocked;
}

/// A user who may not read what is remembered sees the blocks without their steps.
void addSteps(Store& store, const Endpoint& where, BlockedKeys& blocked) {
    std::vector<std::string> keys;
    std::vector<Command> queries;
    for (const auto& [key, each] : blocked) {
        keys.push_back(key);
        queries.push_back(memoryQuery(key));
    }
    const std::vector<Reply> replies = store.askEach(where, keys, queries);
    for (std::size_t i = 0; i < keys.size(); i++) {
        const std::optional<RememberedBlock> remembered = rememberedIn(replies[i]);
        Blocked& each = blocked.at(keys[i]);
        if (remembered && remembered->block.untilMs >= each.block.untilMs) {
            each.step = remembered->step;
        }
    }
}

/// The longest first.
std::vector<std::pair<std::string, Blocked>> inOrder(const BlockedKeys& blocked) {
    std::vector<std::pair<std::string, Blocked>> rows(blocked.begin(), blocked.end());
    std::ranges::stable_sort(
        rows, [](const auto& left, const auto& right) { return left.second.restMs() > right.second.restMs(); });
    return rows;
}

std::string human(const Context& context, const BlockedKeys& blocked) {
    using enum Table::Align;
    Table table({{"key"}, {"until"}, {"ends in", Right}, {"lasts", Right}, {"step", Right}});
    for (const auto& [key, each] : inOrder(blocked)) {
        table.row({printable(context.shown(key)), isoTime(each.block.untilMs), duration(each.restMs()),
                   duration(each.block.lengthMs), each.step ? grouped(*each.step) : "-"});
    }
    return table.text();
}

std::string json(const Context& context, const BlockedKeys& blocked, std::int64_t seen, const Scanned& scanned) {
    Json out;
    out.beginObject().member("logs_seen", seen);
    jsonOf(out, scanned);
    out.name("blocked").beginArray();
    for (const auto& [key, each] : inOrder(blocked)) {
        out.beginObject().bytes("key", context.shown(key)).member("until_ms", each.block.untilMs);
        out.member("blocked_ms", each.restMs()).member("length_ms", each.block.lengthMs);
        if (each.step) {
            out.member("step", *each.step);
        }
        out.endObject();
    }
    return out.endArray().endObject().line() + "\n";
}

Status runBlocked(const Context& context) {
    const Arguments& arguments = context.arguments;
    const std::string name = nameOrAll(arguments);
    const ScanBudget budget = budgetOf(arguments);

    Store store(context.settings);
    std::int64_t seen = 0;
    BlockedKeys blocked;
    Scanned scanned;
    {
        Progress progress("logs seen:", 0);
        scanned = scan(store, logPattern(context.prefix, name), budget,
                       [&](const Endpoint& where, const std::vector<std::string>& keys) {
                           BlockedKeys found = blockedOf(store, where, keys);
                           addSteps(store, where, found);
                           found.merge(blocked);  // SCAN may pass a key twice: the later one is right
                           blocked.swap(found);
                           seen += static_cast<std::int64_t>(keys.size());
                           progress.at(seen);
                       });
    }
    print(context.json ? json(context, blocked, seen, scanned) : human(context, blocked));
    if (!context.json) {
        print(counted(static_cast<std::int64_t>(blocked.size()), "key is", "keys are") + " blocked, " +
              ofSeen(scanned, seen) + "\n");
    }
    return tellUnseen(scanned);
}

}  // namespace

const ToolCommand kBlocked = {"blocked", "[NAME]",
                              "lists the keys that are blocked (block=), of one limit or of all, and until when",
                              kBlockedOptions, runBlocked};

}  // namespace sliding_log::tool
