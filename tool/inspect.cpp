// inspect: shows what one log has, and when there is room again.
#include <array>

#include "blocks.hpp"
#include "command.hpp"
#include "forms.hpp"
#include "json.hpp"
#include "limit/number.hpp"
#include "table.hpp"
#include "target.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::array kOptions = {
    Option{"--limit", "N", "the limit; without it, \"remaining\" is not shown"},
    Option{"--window", "TIME", "the window; estimated from the log if possible"},
    Option{"--lease", "TIME", "the log is of algorithm=inflight, with this lease"},
    Option{"--burst", "N", "algorithm=bucket: its size; the limit"},
    Option{"--sample", "N", "algorithm=sampled: requests that an entry counts for"},
    kSecretOption,
};

struct Found {
    const Form* form;
    ReadSettings settings;
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

bool isInflight(const Found& found) {
    return found.form->algorithm == Algorithm::Inflight;
}

std::string retryText(const Found& found) {
    const State& state = found.state;
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

std::string human(const std::string& key, const Found& found) {
    const State& state = found.state;
    Table table({{""}, {""}});
    table.row({"key", printable(key)});
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
        table.row({"remaining", grouped(*state.remaining) + " of " + grouped(*found.settings.limit)});
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

std::string json(const std::string& key, const Found& found) {
    Json out;
    const auto optional = [&](std::string_view name, std::optional<std::int64_t> value) {
        if (value) {
            out.member(name, *value);
        }
    };
    out.beginObject().bytes("key", key).member("algorithm", found.form->name());
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

/// A block outlives its log in memory.
void tellNone(const Context& context, const std::string& shown, const std::optional<RememberedBlock>& remembered) {
    if (context.json) {
        Json out;
        out.beginObject().bytes("key", shown).member("entries", std::int64_t{0});
        addStep(out, remembered);
        print(out.endObject().line() + "\n");
        return;
    }
    print("no log at " + printable(shown) + ": no request in its window\n");
    if (remembered) {
        print("step " + stepText(*remembered) + "\n");
    }
}

Status run(const Context& context) {
    const std::string target = targetKey(context);
    Store store(context.settings);
    const std::string key = wholeKey(store, context, target);
    const std::string shown = context.shown(key);
    const std::array<Command, 4> commands = {
        {{"TYPE", key}, {"PTTL", key}, {"MEMORY", "USAGE", key, "SAMPLES", "0"}, {"TIME"}}};
    const std::vector<Reply> replies = store.ask(key, commands);
    const std::string type(checked(replies[0], "TYPE").text());
    const std::optional<RememberedBlock> remembered =
        rememberedIn(store.ask(memoryKey(key), memoryQuery(key)));  // without the right to read it: none
    if (type == "none") {
        tellNone(context, shown, remembered);
        return Status::Warning;
    }
    const Form* form = formOfType(type);
    if (form != nullptr) {
        const Reply probed = store.ask(key, form->probe(key));
        form = formOf(type, checked(probed, form->probe(key).front()));
    }
    if (form == nullptr) {
        throw CouldNotAsk("the key is a " + type + ", which no algorithm uses");
    }
    const NginxLimit* limit = context.limitOf(context.arguments.words()[0]);
    const bool isSampled = limit != nullptr && limit->algorithm == kSampledForm.name();
    if (context.arguments.has("--sample") && form->type() != kSampledForm.type()) {
        throw UsageError("\"--sample\" is for algorithm=sampled, and this log is of " + std::string(form->name()));
    }
    if ((context.arguments.has("--sample") || isSampled) && form->type() == kSampledForm.type()) {
        form = &kSampledForm;
    }
    const bool isOfInflight = limit != nullptr && limit->algorithm == kInflightForm.name();
    if ((context.arguments.has("--lease") || isOfInflight) && form->type() == kInflightForm.type()) {
        form = &kInflightForm;
    }
    Found found{form, {}, {}, replies[2].number(), remembered};
    found.settings.nowMs = timeIn(checked(replies[3], "TIME"));
    found.settings.ttlMs = checked(replies[1], "PTTL").numberOr(-1);
    take(found.settings, context.arguments, limit, isSampled);
    found.state = form->read(store, key, found.settings);
    print(context.json ? json(shown, found) : human(shown, found));
    return Status::Ok;
}

}  // namespace

const ToolCommand kInspect = {"inspect", "NAME VALUE | KEY", "shows a log, and when there is room again", kOptions,
                              run};

}  // namespace sliding_log::tool
