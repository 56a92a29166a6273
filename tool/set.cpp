// set, unset: write and remove the record that changes the limit of one key while nginx runs (override=on).
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "command.hpp"
#include "forms.hpp"
#include "json.hpp"
#include "override_record.hpp"
#include "target.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::array kSetOptions = {
    Option{"--limit", "N", "another limit for this key"},
    Option{"--allow", "", "admit its requests, and log none"},
    Option{"--deny", "", "deny its requests"},
    Option{"--for", "TIME", "how long; until unset"},
    Option{"--why", "TEXT", "the reason, for others who list it"},
    Option{"--by", "WHO", "who sets it; the user of the system"},
    kSecretOption,
};

constexpr std::array kUnsetOptions = {kSecretOption};

constexpr std::size_t kLongestText = 200;  // bytes
constexpr std::string_view kUntilKnown = "nginx nodes may decide by what they know for up to a second\n";
constexpr const char* kNoLog =
    "no log is there yet: no request of this key is in its window; if there should be one, check NAME and VALUE\n";

Override chosen(const Arguments& arguments) {
    if (arguments.has("--limit") + arguments.has("--allow") + arguments.has("--deny") != 1) {
        throw UsageError("expected one of --limit N, --allow and --deny");
    }
    if (arguments.has("--limit")) {
        return {Override::What::Limit, arguments.count("--limit", 0, 0, kLargestCount), 0};
    }
    return {arguments.has("--allow") ? Override::What::Allow : Override::What::Deny, 0, 0};
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

/// The limit that the key is of, in nginx's configuration, has no override=on.
bool warnOfUnread(const Context& context, const std::string& key) {
    const NginxLimit* limit = context.limitOf(key);
    if (limit == nullptr || limit->overrides) {
        return false;
    }
    std::fprintf(stderr, "sliding-log: %s has no override=on for this limit: nginx does not read what is set\n",
                 printable(context.nginx->file()).c_str());
    return true;
}

Status set(const Context& context) {
    const Arguments& arguments = context.arguments;
    OverrideRecord record;
    record.override = chosen(arguments);
    record.why = lineOf(arguments, "--why", true);
    record.by = arguments.has("--by") ? lineOf(arguments, "--by", false) : whoRuns();
    const std::int64_t lastsMs = arguments.time("--for", 0);
    const std::string target = targetKey(context);

    Store store(context.settings);
    const std::string logKey = wholeKey(store, context, target);
    const std::string key = overrideKey(logKey);
    const Reply reply = store.ask(key, {"TIME"});
    record.sinceMs = timeIn(checked(reply, "TIME"));
    Command command = {"SET", key, ""};
    if (lastsMs > 0) {
        record.override.untilMs = record.sinceMs + lastsMs;
        command.insert(command.end(), {"PXAT", std::to_string(record.override.untilMs)});
    }
    command[2] = record.text();
    checked(store.ask(key, command), "SET");

    const bool isUnread = warnOfUnread(context, logKey);
    const bool isLogged = hasLog(store, logKey);
    const std::string shown = context.shown(logKey);
    if (context.json) {
        Json out;
        out.beginObject().bytes("key", shown).member("what", record.what());
        if (lastsMs > 0) {
            out.member("until_ms", record.override.untilMs);
        }
        print(out.member("since_ms", record.sinceMs)
                  .member("by", record.by)
                  .member("why", record.why)
                  .name("has_log")
                  .boolean(isLogged)
                  .endObject()
                  .line() +
              "\n");
    } else {
        print(printable(shown) + ": " + record.what() +
              (lastsMs > 0 ? " until " + isoTime(record.override.untilMs) : " until unset") + "\n" +
              std::string(kUntilKnown) + (isLogged ? "" : kNoLog));
    }
    return isUnread ? Status::Warning : Status::Ok;
}

Status unset(const Context& context) {
    const std::string target = targetKey(context);
    Store store(context.settings);
    const std::string logKey = wholeKey(store, context, target);
    const std::string key = overrideKey(logKey);
    const std::string shown = context.shown(logKey);
    const Reply reply = store.ask(key, {"UNLINK", key});
    const bool removed = checked(reply, "UNLINK").numberOr(0) > 0;
    const bool isLogged = hasLog(store, logKey);
    if (context.json) {
        Json out;
        out.beginObject().bytes("key", shown).name("removed").boolean(removed).name("has_log").boolean(isLogged);
        print(out.endObject().line() + "\n");
    } else {
        const std::string told = printable(shown);
        print((removed ? told + ": as configured\n" + std::string(kUntilKnown) : "no override of " + told + "\n") +
              (isLogged ? "" : kNoLog));
    }
    return removed ? Status::Ok : Status::Warning;
}

}  // namespace

const ToolCommand kSet = {"set", "NAME VALUE | KEY", "changes the limit of one key while nginx runs (override=on)",
                          kSetOptions, set};

const ToolCommand kUnset = {"unset", "NAME VALUE | KEY", "ends that", kUnsetOptions, unset};

}  // namespace sliding_log::tool
