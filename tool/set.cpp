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
    const std::string logKey = targetKey(context);
    const std::string key = overrideKey(logKey);

    Store store(context.settings);
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
                  .endObject()
                  .line() +
              "\n");
    } else {
        print(printable(shown) + ": " + record.what() +
              (lastsMs > 0 ? " until " + isoTime(record.override.untilMs) : " until unset") +
              "\nnginx nodes may decide by what they know for up to a second\n");
    }
    return isUnread ? Status::Warning : Status::Ok;
}

Status unset(const Context& context) {
    const std::string logKey = targetKey(context);
    const std::string key = overrideKey(logKey);
    const std::string shown = context.shown(logKey);
    Store store(context.settings);
    const Reply reply = store.ask(key, {"UNLINK", key});
    const bool removed = checked(reply, "UNLINK").numberOr(0) > 0;
    if (context.json) {
        print(Json().beginObject().bytes("key", shown).name("removed").boolean(removed).endObject().line() + "\n");
    } else if (removed) {
        print(printable(shown) + ": as configured\nnginx nodes may decide by what they know for up to a second\n");
    } else {
        print("no override of " + printable(shown) + "\n");
    }
    return removed ? Status::Ok : Status::Warning;
}

}  // namespace

const ToolCommand kSet = {"set", "NAME VALUE | KEY", "changes the limit of one key while nginx runs (override=on)",
                          kSetOptions, set};

const ToolCommand kUnset = {"unset", "NAME VALUE | KEY", "ends that", kUnsetOptions, unset};

}  // namespace sliding_log::tool
