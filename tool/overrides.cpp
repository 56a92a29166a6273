// overrides: lists the records that `set` has written, of keys and of whole NAMEs.
#include <algorithm>
#include <array>
#include <map>

#include "command.hpp"
#include "forms.hpp"
#include "json.hpp"
#include "override_record.hpp"
#include "scan.hpp"
#include "table.hpp"
#include "target.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::array kOverridesOptions = {
    kPauseOption,
    kForOption,
    kSecretOption,
};

/// By the key of the log, or prefix and NAME; nullopt: what is there is no record, and counts as none.
using FoundRecords = std::map<std::string, std::optional<OverrideRecord>>;

/// True for prefix and NAME.
bool isOfName(const Context& context, std::string_view key) {
    return isName(key.substr(context.prefix.size()));
}

/// Others may have keys that end like records, too.
bool isRecord(const Context& context, const std::string& key) {
    const std::string_view name = std::string_view(key).substr(0, key.size() - kOverrideSuffix.size());
    return name.ends_with('}') || isOfName(context, name);
}

std::string shown(const Context& context, const std::string& key) {
    return isOfName(context, key) ? "all keys of " + key.substr(context.prefix.size()) : context.shown(key);
}

void read(const Context& context, Store& store, const Endpoint& where, std::vector<std::string> keys,
          FoundRecords& found) {
    std::erase_if(keys, [&](const std::string& key) { return !isRecord(context, key); });
    std::vector<Command> commands;
    std::ranges::transform(keys, std::back_inserter(commands), [](const std::string& key) {
        return Command{"GET", key};
    });
    const std::vector<Reply> replies = store.askEach(where, keys, commands);
    for (std::size_t i = 0; i < keys.size(); i++) {
        const bool isOther = replies[i].errorWord() == "WRONGTYPE";
        if (!isOther && checked(replies[i], "GET").isNil()) {
            continue;  // it has ended in the meantime
        }
        const std::string key = keys[i].substr(0, keys[i].size() - kOverrideSuffix.size());
        const RecordOf of = isOfName(context, key) ? RecordOf::Name : RecordOf::Key;
        found[key] = isOther ? std::nullopt : OverrideRecord::read(replies[i].text(), of);
    }
}

std::string human(const Context& context, const FoundRecords& found) {
    Table table({{"key"}, {"what"}, {"until"}, {"why"}, {"since"}, {"by"}});
    for (const auto& [key, record] : found) {
        const std::string its = printable(shown(context, key));
        if (!record) {
            table.row({its, {"broken: counts as none", Colour::Bad}, "", "", "", ""});
            continue;
        }
        table.row({its, record->what(), record->override.untilMs == 0 ? "unset" : isoTime(record->override.untilMs),
                   printable(record->why), isoTime(record->sinceMs), printable(record->by)});
    }
    return table.text();
}

std::string json(const Context& context, const FoundRecords& found, const Scanned& scanned) {
    Json out;
    out.beginObject();
    if (context.isOneOfSeveral) {
        out.member("store", context.store->name);
    }
    jsonOf(out, scanned);
    out.name("overrides").beginArray();
    for (const auto& [key, record] : found) {
        out.beginObject().bytes("key", context.shown(key)).member("what", record ? record->what() : "broken");
        if (isOfName(context, key)) {
            out.name("all").boolean(true);
        }
        if (record) {
            if (record->override.untilMs > 0) {
                out.member("until_ms", record->override.untilMs);
            }
            out.bytes("why", record->why).member("since_ms", record->sinceMs).bytes("by", record->by);
        }
        out.endObject();
    }
    return out.endArray().endObject().line() + "\n";
}

Status runOverrides(const Context& context) {
    const Arguments& arguments = context.arguments;
    const std::string name = nameOrAll(arguments);
    const ScanBudget budget = budgetOf(arguments);
    Store store(context.settings);
    FoundRecords found;
    const Scanned scanned = scan(
        store, recordPattern(context.prefix, name), budget,
        [&](const Endpoint& where, const std::vector<std::string>& keys) { read(context, store, where, keys, found); });
    if (context.json) {
        print(json(context, found, scanned));
    } else {
        print(found.empty() ? "no overrides\n" : human(context, found));
    }
    return tellUnseen(scanned);
}

}  // namespace

const ToolCommand kOverrides = {"overrides",
                                "[NAME]",
                                "lists what set has changed, of one limit or of all",
                                kOverridesOptions,
                                runOverrides,
                                true,
                                [](const Arguments&) { return true; }};

}  // namespace sliding_log::tool
