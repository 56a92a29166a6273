// set, unset: write and remove the record that changes the limit of one key, or of all keys of a NAME, while nginx runs
// (override=).
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "command.hpp"
#include "forms.hpp"
#include "json.hpp"
#include "override_record.hpp"
#include "target.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr Option kAllOption{"--all", "", "of all keys of NAME (override=on or name), in place of a VALUE"};

constexpr std::array kSetOptions = {
    kAllOption,
    Option{"--limit", "N", "another limit for this key"},
    Option{"--allow", "", "admit its requests, and log none"},
    Option{"--deny", "", "deny its requests"},
    Option{"--dry-run", "", "with --all: decide, count and log, and deny nothing"},
    Option{"--for", "TIME", "how long; until unset"},
    Option{"--why", "TEXT", "the reason, for others who list it"},
    Option{"--by", "WHO", "who sets it; the user of the system"},
    kSecretOption,
};

constexpr std::array kUnsetOptions = {kAllOption, kSecretOption};

bool isOfAllKeys(const Arguments& arguments) {
    return arguments.has(kAllOption.name);
}

constexpr std::size_t kLongestText = 200;  // bytes
constexpr std::string_view kUntilKnown = "nginx nodes may decide by what they know for up to a second\n";
constexpr std::string_view kUntilRead = "nginx nodes read it within two seconds\n";
constexpr const char* kNoLog =
    "no log is there yet: no request of this key is in its window; if there should be one, check NAME and VALUE\n";

/// What is set: a record of one key, or of all keys of a NAME.
struct Target {
    std::string name;    // of all its keys; empty: of one key
    std::string logKey;  // of one key

    bool isOfAll() const { return !name.empty(); }
    std::string record(const Context& context) const { return overrideKey(isOfAll() ? context.prefix + name : logKey); }
    std::string shown(const Context& context) const {
        return isOfAll() ? "all keys of " + name : context.shown(logKey);
    }
    std::string_view untilObeyed() const { return isOfAll() ? kUntilRead : kUntilKnown; }
    bool lacksLog(Store& store) const { return !isOfAll() && !hasLog(store, logKey); }
};

/// By the words of the command; the key may still be one of a secret that is shortened. Throws UsageError.
Target givenTarget(const Context& context) {
    if (!isOfAllKeys(context.arguments)) {
        return {"", targetKey(context)};
    }
    const std::vector<std::string>& words = context.arguments.words();
    if (words.size() != 1) {
        throw UsageError("expected the NAME of a limit, and no VALUE, with --all");
    }
    requireName(words[0]);
    static_cast<void>(context.secrets.of(words[0]));  // refuses one that nginx does not know
    return {words[0], ""};
}

/// The same, whole. Throws CouldNotAsk.
Target targetIn(Store& store, const Context& context, Target given) {
    if (!given.isOfAll()) {
        given.logKey = wholeKey(store, context, given.logKey);
    }
    return given;
}

Override chosen(const Arguments& arguments) {
    const bool isDryRun = arguments.has("--dry-run");
    if (arguments.has("--limit") + arguments.has("--allow") + arguments.has("--deny") + isDryRun != 1) {
        throw UsageError("expected one of --limit N, --allow, --deny and, with --all, --dry-run");
    }
    if (isDryRun && !isOfAllKeys(arguments)) {
        throw UsageError("--dry-run is of all keys of a NAME, expected --all with it");
    }
    if (arguments.has("--limit")) {
        return {Override::What::Limit, arguments.count("--limit", 0, 0, kLargestCount), 0};
    }
    return {isDryRun                   ? Override::What::DryRun
            : arguments.has("--allow") ? Override::What::Allow
                                       : Override::What::Deny,
            0, 0};
}

std::string lineOf(const Arguments& arguments, std::string_view option, bool mayHaveBlanks) {
    const std::string text = arguments.text(option);
    for (const char c : text) {
        const bool isControl = (c >= 0 && c < ' ') || c == 0x7f;
        if (isControl || (c == ' ' && !mayHaveBlanks)) {
            refuseValue(option, text, mayHaveBlanks ? "one line" : "a name without blanks");
        }
    }
    if (text.size() > kLongestText || !isUtf8(text)) {
        refuseValue(option, text, "at most " + std::to_string(kLongestText) + " bytes of UTF-8");
    }
    return text;
}

/// Who runs the tool, also by sudo.
std::string whoRuns() {
    const char* sudo = std::getenv("SUDO_USER");
    const passwd* user = getpwuid(getuid());
    std::string name = sudo != nullptr && *sudo != '\0' ? sudo : user != nullptr ? user->pw_name : "";
    return name.find_first_of(" \t\n") == std::string::npos && name.size() <= kLongestText ? name : "";
}

/// The limit that it is of, in nginx's configuration, has no override= that reads it.
bool warnOfUnread(const Context& context, const Target& target) {
    const NginxLimit* limit = context.limitOf(target.isOfAll() ? target.name : target.logKey);
    if (limit == nullptr || (target.isOfAll() ? limit->obeysName : limit->obeysKeys)) {
        return false;
    }
    std::fprintf(stderr, "sliding-log: %s has no override=on%s for this limit: nginx does not read what is set\n",
                 printable(context.nginx->file()).c_str(), target.isOfAll() ? " and no override=name" : "");
    return true;
}

/// One limit replaces all limit= of the NAME.
void tellOfSeveral(const Context& context, const Target& target, const OverrideRecord& record) {
    const NginxLimit* limit = target.isOfAll() ? context.limitOf(target.name) : nullptr;
    if (limit != nullptr && record.override.what == Override::What::Limit && !limit->limit.value()) {
        std::fprintf(stderr,
                     "sliding-log: %s has several limit=, or a variable one, for this NAME: it replaces them all\n",
                     printable(context.nginx->file()).c_str());
    }
}

Json& beginJson(Json& out, const Context& context, const Target& target) {
    out.beginObject();
    if (context.isOneOfSeveral) {
        out.member("store", context.store->name);
    }
    return target.isOfAll() ? out.member("name", target.name) : out.bytes("key", target.shown(context));
}

std::string endJson(Json& out, const Target& target, bool lacksLog) {
    if (!target.isOfAll()) {
        out.name("has_log").boolean(!lacksLog);
    }
    return out.endObject().line() + "\n";
}

Status set(const Context& context) {
    const Arguments& arguments = context.arguments;
    OverrideRecord record;
    record.override = chosen(arguments);
    record.why = lineOf(arguments, "--why", true);
    record.by = arguments.has("--by") ? lineOf(arguments, "--by", false) : whoRuns();
    const std::int64_t lastsMs = arguments.time("--for", 0);
    Target given = givenTarget(context);

    Store store(context.settings);
    const Target target = targetIn(store, context, std::move(given));
    const std::string key = target.record(context);
    const Reply reply = store.ask(key, {"TIME"});
    record.sinceMs = timeIn(checked(reply, "TIME"));
    Command command = {"SET", key, ""};
    if (lastsMs > 0) {
        record.override.untilMs = record.sinceMs + lastsMs;
        command.insert(command.end(), {"PXAT", std::to_string(record.override.untilMs)});
    }
    command[2] = record.text();
    checked(store.ask(key, command), "SET");

    const bool isUnread = warnOfUnread(context, target);
    tellOfSeveral(context, target, record);
    const bool lacksLog = target.lacksLog(store);
    if (context.json) {
        Json out;
        beginJson(out, context, target).member("what", record.what());
        if (lastsMs > 0) {
            out.member("until_ms", record.override.untilMs);
        }
        out.member("since_ms", record.sinceMs).member("by", record.by).member("why", record.why);
        print(endJson(out, target, lacksLog));
    } else {
        print(printable(target.shown(context)) + ": " + record.what() +
              (lastsMs > 0 ? " until " + isoTime(record.override.untilMs) : " until unset") + "\n" +
              std::string(target.untilObeyed()) + (lacksLog ? kNoLog : ""));
    }
    return isUnread ? Status::Warning : Status::Ok;
}

Status unset(const Context& context) {
    Target given = givenTarget(context);
    Store store(context.settings);
    const Target target = targetIn(store, context, std::move(given));
    const std::string key = target.record(context);
    const Reply reply = store.ask(key, {"UNLINK", key});
    const bool removed = checked(reply, "UNLINK").numberOr(0) > 0;
    const bool lacksLog = target.lacksLog(store);
    if (context.json) {
        Json out;
        beginJson(out, context, target).name("removed").boolean(removed);
        print(endJson(out, target, lacksLog));
    } else {
        const std::string told = printable(target.shown(context));
        print((removed ? told + ": as configured\n" + std::string(target.untilObeyed())
                       : "no override of " + told + "\n") +
              (lacksLog ? kNoLog : ""));
    }
    return removed ? Status::Ok : Status::Warning;
}

}  // namespace

const ToolCommand kSet = {"set",
                          "NAME VALUE | KEY | NAME --all",
                          "changes the limit of one key, or of all keys, while nginx runs (override=)",
                          kSetOptions,
                          set,
                          true,
                          isOfAllKeys};

const ToolCommand kUnset = {"unset",    "NAME VALUE | KEY | NAME --all", "ends that", kUnsetOptions, unset, true,
                            isOfAllKeys};

}  // namespace sliding_log::tool
