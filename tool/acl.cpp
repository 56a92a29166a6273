// acl: prints the rules that give nginx's user, or this tool's, the rights that it needs, and no others.
#include <algorithm>
#include <array>

#include "blocks.hpp"
#include "command.hpp"
#include "connection_options.hpp"
#include "json.hpp"
#include "limit/block_form.hpp"
#include "limit/override.hpp"
#include "redis/native_command.hpp"
#include "target.hpp"
#include "text.hpp"
#include "use.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::array kAclOptions = {
    kAlgorithmsOption,
    kOverrideOption,
    Option{"--for", "WHOM", "nginx or tool; nginx"},
    Option{"--native", "", "permit the command of the native module, too; if nginx has native required"},
};

/// Keys and channels are restricted, whatever the user had before; PASSWORD is replaced by the operator.
constexpr std::string_view kBegin = " on >PASSWORD resetkeys resetchannels ";

struct Line {
    std::string_view where;  // where to run it
    std::string user;
    std::string text;
};

std::string rule(const std::string& user, std::string_view own, std::span<const Right> rights) {
    std::string text = "ACL SETUSER " + user + std::string(kBegin) + std::string(own) + "-@all";
    for (const Right& right : rights) {
        text += " +" + right.name;
    }
    return text;
}

/// The keys that the user may touch. nginx reads the records of overrides, and must not write them: the keys of logs
/// end with a brace, and those that remember blocks with a word of their own.
std::string keysFor(const Context& context, const Use& use, bool isForNginx) {
    const std::string keys = escapeGlob(context.prefix) + "*";
    if (!isForNginx || !use.overrides) {
        return "~" + keys + " ";
    }
    return "~" + keys + "} " + (mayEscalate(use) ? "~" + keys + std::string(kBlocksSuffix) + " " : "") +
           readOnlyKeys(context.prefix, kOverrideSuffix) + " ";
}

/// Refuses a text that ACL does not accept as one word.
void refuseBlanks(std::string_view option, const std::string& text) {
    if (printable(text) != text || text.find_first_of(" \"'") != std::string::npos) {
        refuseValue(option, text, "a text without blanks, quotes and backslashes");
    }
}

/// From the command line, otherwise from nginx's configuration (nginx's user) or the file of defaults (the tool's).
std::string userOf(const Context& context, std::string_view option, StoreDirective directive, bool isForNginx,
                   const char* otherwise) {
    const Directive* configured = isForNginx && context.store != nullptr ? context.store->find(directive) : nullptr;
    std::string user = otherwise;
    if (context.arguments.isOnCommandLine(option) || (!isForNginx && context.arguments.has(option))) {
        user = context.arguments.text(option);
    } else if (configured != nullptr) {
        user = configured->words.back();
    }
    if (user.empty()) {
        refuseValue(option, user, "a name");
    }
    refuseBlanks(option, user);
    return user;
}

std::vector<Line> linesFor(const Context& context, bool isForNginx) {
    refuseBlanks("--prefix", context.prefix);
    const Use use = useOf(context);
    const std::string user =
        userOf(context, kRedisLogin.user, StoreDirective::Username, isForNginx, isForNginx ? "limiter" : "operator");
    std::vector<Right> rights = isForNginx ? moduleRights(use) : toolRights(use);
    if (context.arguments.has("--native") || requiresNative(context)) {
        rights.push_back({std::string(kNativeCommand)});
    }
    std::vector<Line> lines = {
        {"the Redis, and each replica", user, rule(user, keysFor(context, use, isForNginx), rights)}};
    if (use.mode == Mode::Sentinel) {
        const std::string watcher = userOf(context, kSentinelLogin.user, StoreDirective::SentinelUsername, isForNginx,
                                           isForNginx ? "watcher" : "operator");
        static const std::array nginx = {Right{"sentinel|get-master-addr-by-name"}, Right{"subscribe"}};
        static const std::array tool = {Right{"sentinel|get-master-addr-by-name"}, Right{"sentinel|ckquorum"}};
        lines.push_back(
            {"each Sentinel", watcher,
             isForNginx ? rule(watcher, "&+switch-master &+promoted-slave ", nginx) : rule(watcher, "", tool)});
    }
    return lines;
}

std::string human(const std::vector<Line>& lines) {
    std::string text;
    for (const Line& line : lines) {
        text += (lines.size() > 1 ? "# " + std::string(line.where) + "\n" : "") + line.text + "\n";
    }
    return text;
}

std::string json(const std::vector<Line>& lines) {
    Json out;
    out.beginObject().name("rules").beginArray();
    for (const Line& line : lines) {
        out.beginObject().member("where", line.where).member("user", line.user).member("rule", line.text).endObject();
    }
    return out.endArray().endObject().line() + "\n";
}

Status runAcl(const Context& context) {
    if (!context.arguments.words().empty()) {
        throw UsageError("acl takes no operand: \"" + printable(context.arguments.words().front()) + "\"");
    }
    const std::string whom = context.arguments.text("--for", "nginx");
    if (whom != "nginx" && whom != "tool") {
        refuseValue("--for", whom, "nginx or tool");
    }
    const std::vector<Line> lines = linesFor(context, whom == "nginx");
    print(context.json ? json(lines) : human(lines));
    return Status::Ok;
}

}  // namespace

const ToolCommand kAcl = {
    "acl",       "",     "prints the ACL SETUSER command with the rights that --user needs; does not connect to Redis",
    kAclOptions, runAcl, false};

}  // namespace sliding_log::tool
