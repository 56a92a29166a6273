// inspect: shows what one log has, and when there is room again.
#include <array>

#include "blocks.hpp"
#include "command.hpp"
#include "forms.hpp"
#include "json.hpp"
#include "limit/number.hpp"
#include "override_record.hpp"
#include "table.hpp"
#include "target.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::array kInspectOptions = {
    Option{"--limit", "N", "the limit; without it, \"remaining\" is not shown"},
    Option{"--window", "TIME", "the window; estimated from the log if possible"},
    Option{"--lease", "TIME", "the log is of algorithm=inflight, with this lease"},
    Option{"--burst", "N", "algorithm=bucket: its size; the limit"},
    Option{"--sample", "N", "algorithm=sampled: requests that an entry counts for"},
    kSecretOption,
};

struct FoundLog {
    const Form* form = nullptr;  // nullptr: no log
    ReadSettings settings;       // with the limit that decides: that of the record, if it has one
    BesideLog beside;
    const char* unreadIn = nullptr;  // nginx's configuration, if the limit has no override=on there
    State state;
    std::optional<std::int64_t> bytes;
    std::optional<RememberedBlock> remembered;  // if block= has several times
};

std::string timeAndAge(std::optional<std::int64_t> ms, std::int64_t now) {
    if (!ms) {
        return "none";
    }
    return isoTime(*ms) + (*ms > now ? ", in " + duration(*ms - now) : ", " + duration(now - *ms) + " ago");
}

bool isInflight(const FoundLog& found) {
    return found.form != nullptr && traitsOf(found.form->algorithm).countsUnderWay;
}

/// The record that decides, or changes what decides; nullptr: none.
const OverrideRecord* obeyed(const FoundLog& found) {
    return found.beside.record && found.unreadIn == nullptr ? &*found.beside.record : nullptr;
}

bool decidesAlone(const OverrideRecord* record) {
    return record != nullptr && record->override.decides();
}

std::string overrideRetryText(const Override& override, std::int64_t nowMs) {
    return override.what == Override::What::Allow ? "now: the override allows"
           : override.untilMs == 0                ? "never: the override denies until it is unset"
                                   : "in " + duration(override.untilMs - nowMs) + ", when the override ends";
}

/// What `remaining` counts.
std::int64_t capacityOf(const FoundLog& found) {
    const std::int64_t limit = *found.settings.limit;
    return found.form != nullptr && takes(found.form->algorithm, Parameter::Burst)
               ? found.settings.burst.value_or(limit)
               : limit;
}

std::string retryText(const FoundLog& found) {
    const State& state = found.state;
    if (const OverrideRecord* record = obeyed(found); decidesAlone(record)) {
        return overrideRetryText(record->override, found.settings.nowMs);
    }
    if (found.form == nullptr) {
        return found.settings.limit.value_or(1) == 0 ? "never: the limit is 0" : "now: there is room";
    }
    if (isInflight(found) && state.retryMs.value_or(1) > 0) {
        return state.retryMs ? "when a request ends" : "unknown without --limit";
    }
    const std::string about = found.settings.windowMs || state.endsMs ? "" : "about ";
    std::int64_t retry = state.retryMs.value_or(0);
    if (!state.retryMs && state.blockedMs > 0) {
        return "in " + duration(state.blockedMs) + " at the earliest, when the block ends";
    }
    if (!state.retryMs && state.endsMs) {
        return "unknown without --limit; in " + duration(*state.endsMs - found.settings.nowMs) + " at the latest";
    }
    if (!state.retryMs) {
        if (!state.windowMs || !state.oldestMs) {
            return "unknown without --limit and --window";
        }
        const std::int64_t leaves = *state.oldestMs + *state.windowMs - found.settings.nowMs;
        return leaves > 0 ? "the oldest entry leaves in " + about + duration(leaves) + " (see --limit)"
                          : "all entries of the window have left";
    }
    if (retry >= 0) {
        retry = std::max(retry, state.blockedMs);
    }
    return retry < 0 ? "never: the limit is 0" : retry == 0 ? "now: there is room" : "in " + about + duration(retry);
}

std::string stepText(const RememberedBlock& last) {
    return grouped(last.step) + ", of the last block, for " + duration(last.block.lengthMs) +
           "; a block that begins until " + isoTime(last.endsMs()) + " has the next one";
}

void addStep(Json& out, const std::optional<RememberedBlock>& last) {
    if (last) {
        out.member("block_step", last->step).member("block_remembered_until_ms", last->endsMs());
    }
}

void addOverride(Table& table, const FoundLog& found) {
    if (!found.beside.trouble.empty()) {
        table.row({"override", {found.beside.trouble, Colour::Bad}});
    }
    if (!found.beside.record) {
        return;
    }
    const OverrideRecord& record = *found.beside.record;
    const bool isDenial = record.override.what == Override::What::Deny;
    table.row({"override", {record.what(), isDenial ? Colour::Bad : Colour::Warning}});
    if (found.unreadIn != nullptr) {
        table.row({"obeyed", {"no: the limit has no override=on in " + printable(found.unreadIn), Colour::Bad}});
    }
    table.row({"until", record.override.untilMs == 0 ? "unset" : isoTime(record.override.untilMs)});
    table.row({"why", printable(record.why)});
    table.row({"by", printable(record.by)});
    table.row({"since", isoTime(record.sinceMs)});
}

void addOverride(Json& out, const FoundLog& found) {
    if (!found.beside.trouble.empty()) {
        out.member("override_trouble", found.beside.trouble);
    }
    if (!found.beside.record) {
        return;
    }
    const OverrideRecord& record = *found.beside.record;
    out.name("override").beginObject().member("what", record.what());
    if (record.override.untilMs > 0) {
        out.member("until_ms", record.override.untilMs);
    }
    out.bytes("why", record.why).bytes("by", record.by).member("since_ms", record.sinceMs);
    out.name("obeyed").boolean(found.unreadIn == nullptr).endObject();
}

std::string human(const std::string& key, const FoundLog& found) {
    const State& state = found.state;
    Table table({{""}, {""}});
    table.row({"key", printable(key)});
    addOverride(table, found);
    if (found.form == nullptr) {
        table.row({"log", "none: no request in its window"});
        if (found.remembered) {
            table.row({"step", stepText(*found.remembered)});
        }
        table.row({"retry", retryText(found)});
        return table.text();
    }
    table.row({"algorithm", std::string(found.form->name())});
    if (state.entries) {
        table.row({"entries", grouped(*state.entries)});
    }
    if (state.endsMs) {
        table.row({"period",
                   std::string(state.period.empty() ? "other" : state.period) + ", until " + isoTime(*state.endsMs)});
    } else if (state.windowMs) {
        table.row({isInflight(found) ? "lease" : "window",
                   (found.settings.windowMs ? "" : "about ") + duration(*state.windowMs) +
                       (found.settings.windowMs ? "" : ", estimated (see --window)")});
    }
    if (state.used) {
        table.row({"used", grouped(*state.used)});
    }
    if (state.remaining) {
        table.row({"remaining", grouped(*state.remaining) + " of " + grouped(capacityOf(found))});
    }
    if (state.endsMs) {
        table.row({"began", timeAndAge(state.oldestMs, found.settings.nowMs)});
    } else if (state.entries) {
        table.row({"oldest", timeAndAge(state.oldestMs, found.settings.nowMs)});
    }
    if (!state.endsMs) {
        table.row({"newest", timeAndAge(state.newestMs, found.settings.nowMs)});
    }
    if (found.state.blockedMs > 0) {
        table.row({"blocked", {"for " + duration(found.state.blockedMs), Colour::Bad}});
    }
    if (found.remembered) {
        table.row({"step", stepText(*found.remembered)});
    }
    table.row({"retry", retryText(found)});
    table.row({"expires", found.settings.ttlMs < 0 ? "never" : "in " + duration(found.settings.ttlMs)});
    if (found.bytes) {
        table.row({"memory", byteSize(static_cast<double>(*found.bytes))});
    }
    return table.text();
}

std::string json(const std::string& key, const FoundLog& found) {
    Json out;
    const auto optional = [&](std::string_view name, std::optional<std::int64_t> value) {
        if (value) {
            out.member(name, *value);
        }
    };
    out.beginObject().bytes("key", key);
    if (found.form != nullptr) {
        out.member("algorithm", found.form->name());
    }
    addOverride(out, found);
    optional("entries", found.state.entries);
    if (found.state.endsMs) {
        out.member("period", found.state.period);
    }
    optional("period_ends_ms", found.state.endsMs);
    if (found.state.windowMs && !found.state.endsMs) {
        optional(isInflight(found) ? "lease_ms" : "window_ms", found.state.windowMs);
        out.name(isInflight(found) ? "lease_is_guessed" : "window_is_guessed").boolean(!found.settings.windowMs);
    }
    optional("used", found.state.used);
    optional("limit", found.settings.limit);
    if (found.form != nullptr && takes(found.form->algorithm, Parameter::Burst)) {
        optional("burst", found.settings.burst);
    }
    optional("remaining", found.state.remaining);
    optional("retry_ms", found.state.retryMs);
    optional("oldest_ms", found.state.oldestMs);
    optional("newest_ms", found.state.newestMs);
    out.member("blocked_ms", found.state.blockedMs).member("now_ms", found.settings.nowMs);
    addStep(out, found.remembered);
    if (found.settings.ttlMs >= 0) {
        out.member("expires_ms", found.settings.ttlMs);
    }
    optional("bytes", found.bytes);
    return out.endObject().line() + "\n";
}

/// What the log does not have: from the options, otherwise from nginx's configuration.
void take(ReadSettings& settings, const Arguments& arguments, const NginxLimit* limit, bool isSampled) {
    if (limit != nullptr) {
        settings.windowMs = limit->windowMs;
        if (!settings.windowMs && limit->algorithm == kInflightForm.name()) {
            settings.windowMs = kDefaultLeaseMs;
        }
        settings.limit = limit->limit.value();
        settings.burst = limit->burst.value();
        settings.sample = isSampled ? limit->sample : 1;
    }
    settings.sample = arguments.count("--sample", settings.sample, 1, 1'000'000);
    if (arguments.has("--burst")) {
        settings.burst = arguments.count("--burst", 0, 0, kLargestCount);
    }
    if (arguments.has("--window")) {
        settings.windowMs = arguments.time("--window", 0);
    }
    if (arguments.has("--lease")) {
        settings.windowMs = arguments.time("--lease", 0);
    }
    if (arguments.has("--limit")) {
        settings.limit = arguments.count("--limit", 0, 0, kLargestCount);
    }
}

/// The limit of a record stands for that of the configuration.
void obeyLimit(FoundLog& found) {
    const OverrideRecord* record = obeyed(found);
    if (record == nullptr || record->override.what != Override::What::Limit) {
        return;
    }
    ReadSettings& settings = found.settings;
    if (settings.burst) {
        settings.burst = burstUnder(record->override.limit, *settings.burst, settings.limit.value_or(*settings.burst));
    }
    settings.limit = record->override.limit;
}

/// A record that allows or denies goes before whatever the log has.
void obeyDecision(FoundLog& found) {
    const OverrideRecord* record = obeyed(found);
    if (!decidesAlone(record)) {
        return;
    }
    const Override& override = record->override;
    const bool allows = override.what == Override::What::Allow;
    found.state.retryMs = allows ? 0 : override.untilMs == 0 ? -1 : override.untilMs - found.settings.nowMs;
    if (found.settings.limit) {
        found.state.remaining = allows ? capacityOf(found) : 0;
    }
}

/// A block, and a record, outlive the log.
Status tellNone(const Context& context, const std::string& shown, FoundLog& found) {
    obeyDecision(found);
    const bool hasRecord = found.beside.record || !found.beside.trouble.empty();
    if (context.json) {
        found.state.entries = 0;
        print(json(shown, found));
    } else if (hasRecord) {
        print(human(shown, found));
    } else {
        print("no log at " + printable(shown) + ": no request in its window\n");
        if (found.remembered) {
            print("step " + stepText(*found.remembered) + "\n");
        }
    }
    return found.beside.record ? Status::Ok : Status::Warning;
}

/// The form of the log, as far as its data tell; sampled and inflight are only known by name.
const Form* formOf(Store& store, const Context& context, const NginxLimit* limit, const std::string& key,
                   const std::string& type) {
    const Form* form = formOfType(type);
    if (form != nullptr) {
        const Reply probed = store.ask(key, form->probe(key));
        form = formOf(type, checked(probed, form->probe(key).front()));
    }
    if (form == nullptr) {
        throw CouldNotAsk("the key is a " + type + ", which no algorithm uses");
    }
    const auto isMeant = [&](const Form& meant, std::string_view option) {
        return (context.arguments.has(option) || (limit != nullptr && limit->algorithm == meant.name())) &&
               form->type() == meant.type();
    };
    if (context.arguments.has("--sample") && form->type() != kSampledForm.type()) {
        throw UsageError("\"--sample\" is for algorithm=sampled, and this log is of " + std::string(form->name()));
    }
    return isMeant(kInflightForm, "--lease")   ? &kInflightForm
           : isMeant(kSampledForm, "--sample") ? &kSampledForm
                                               : form;
}

Status runInspect(const Context& context) {
    const std::vector<std::string>& words = context.arguments.words();
    const NginxLimit* limit = words.empty() ? nullptr : context.limitOf(words[0]);
    FoundLog found;
    take(found.settings, context.arguments, limit, limit != nullptr && limit->algorithm == kSampledForm.name());
    if (limit != nullptr && !limit->obeysKeys) {
        found.unreadIn = context.nginx->file().c_str();
    }
    const std::string target = targetKey(context);

    Store store(context.settings);
    const std::string key = wholeKey(store, context, target);
    const std::string shown = context.shown(key);
    const std::array<Command, 4> commands = {
        {{"TYPE", key}, {"PTTL", key}, {"MEMORY", "USAGE", key, "SAMPLES", "0"}, {"TIME"}}};
    const std::vector<Reply> replies = store.ask(key, commands);
    const std::string type(checked(replies[0], "TYPE").text());
    found.settings.nowMs = timeIn(checked(replies[3], "TIME"));
    found.settings.ttlMs = checked(replies[1], "PTTL").numberOr(-1);
    found.bytes = replies[2].number();
    found.remembered = rememberedIn(store.ask(memoryKey(key), memoryQuery(key)));  // without the right to read it: none
    found.beside = besideLog(store.ask(overrideKey(key), {"GET", overrideKey(key)}), found.settings.nowMs);
    obeyLimit(found);
    if (type == "none") {
        return tellNone(context, shown, found);
    }
    found.form = formOf(store, context, limit, key, type);
    found.state = found.form->read(store, key, found.settings);
    obeyDecision(found);
    print(context.json ? json(shown, found) : human(shown, found));
    return Status::Ok;
}

}  // namespace

const ToolCommand kInspect = {"inspect", "NAME VALUE | KEY", "shows a log, and when there is room again",
                              kInspectOptions, runInspect};

}  // namespace sliding_log::tool
