#include "target.hpp"

#include <algorithm>
#include <iostream>
#include <set>

#include "connection_options.hpp"
#include "limit/key.hpp"
#include "limit/override.hpp"
#include "scan.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::int64_t kMostScanMs = 60'000;
constexpr std::string_view kExpected = "expected a full key, or a limit's NAME and the value of its key";

bool isHex(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool isHash(std::string_view value) {
    return value.size() == kHashedLength && value.starts_with(kHashMark) && isHex(value.substr(kHashMark.size()));
}

/// What pages, messages and this tool show of the hash of a secret.
bool isShortened(std::string_view value) {
    return value.size() == kHashMark.size() + kShownDigits && value.starts_with(kHashMark) &&
           isHex(value.substr(kHashMark.size()));
}

/// A VALUE of `-` is a line of standard input, which is in no list of processes and in no history of a shell. A file
/// that was made elsewhere may end its line with CR LF.
std::string valueOf(const std::string& word) {
    if (word != "-") {
        return word;
    }
    std::string line;
    std::getline(std::cin, line);
    if (line.ends_with('\r')) {
        line.pop_back();
    }
    if (line.empty()) {
        throw UsageError("standard input is empty, expected a line with the value of the limit's key");
    }
    return line;
}

/// Only a limit with secret=on has keys that are shown shortened. Of any other, nginx would store a hash of this text.
void requireSecret(Secrecy secrecy, std::string_view name, std::string_view value) {
    if (secrecy == Secrecy::Open) {
        throw UsageError("\"" + printable(value) +
                         "\" is how the key of a secret is shown, expected --secret with it, " +
                         "--nginx-conf with secret=on of " + printable(name) + ", or the full key");
    }
}

[[noreturn]] void refuseKey(const Context& context, std::string_view key, const std::string& why) {
    throw UsageError("\"" + printable(key) + "\" is the key of no log: " + why + ", expected " +
                     printable(context.prefix) + "NAME:{VALUE}, or NAME and VALUE apart");
}

/// Throws UsageError for a key that no decision can have.
void checkKey(const Context& context, const std::string& key) {
    if (!key.starts_with(context.prefix)) {
        throw UsageError("\"" + printable(key) + "\" does not begin with \"" + printable(context.prefix) + "\"; " +
                         std::string(kExpected));
    }
    const std::string_view rest = std::string_view(key).substr(context.prefix.size());
    const std::size_t brace = rest.find(":{");
    if (brace == std::string_view::npos) {
        refuseKey(context, key, "it has no {VALUE}");
    }
    const std::string_view name = rest.substr(0, brace);
    if (!isName(name)) {
        refuseKey(context, key, "\"" + printable(name) + "\" is not the NAME of a limit");
    }
    if (!rest.ends_with('}')) {
        refuseKey(context, key, "it does not end with }");
    }
    const std::string_view value = valueIn(rest, name);
    if (value.empty()) {
        refuseKey(context, key, "its VALUE is empty, which nginx does not limit");
    }
    const Secrecy secrecy = context.secrets.of(name);
    if (isShortened(value)) {
        requireSecret(secrecy, name, value);
        return;
    }
    if (isHash(value)) {
        return;
    }
    if (secrecy == Secrecy::Secret) {  // not quoted: it may be the secret
        throw UsageError("the key is that of no log: nginx stores a hash of each VALUE of " + printable(name) +
                         ", which is secret, expected NAME and VALUE apart");
    }
    if (!isPlainValue(value)) {
        refuseKey(context, key, "nginx stores a hash of this VALUE");
    }
}

/// Throws UsageError if nginx keeps the logs of this limit elsewhere, unless another store is asked on purpose.
void checkStore(const Context& context, std::string_view name) {
    const NginxLimit* limit = context.limitOf(name);
    if (limit == nullptr || context.store == nullptr || context.arguments.has(kStoreOption)) {
        return;
    }
    const std::string_view store = context.nginx->storeOf(*limit);
    if (!context.nginx->mayBeIn(*limit, context.store->name)) {
        throw UsageError("limit \"" + printable(name) + "\" has store=" + printable(store) + " in " +
                         printable(context.nginx->file()) +
                         (store == kLocalStore ? ": its logs are in the memory of nginx, not in Redis"
                                               : ", expected " + std::string(kStoreOption) + " " + printable(store)));
    }
}

}  // namespace

std::string targetKey(const Context& context) {
    const std::vector<std::string>& words = context.arguments.words();
    if (words.size() == 1) {
        checkKey(context, words[0]);
        checkStore(context, nameIn(std::string_view(words[0]).substr(context.prefix.size())));
        return words[0];
    }
    if (words.size() != 2) {
        throw UsageError(std::string(kExpected));
    }
    const std::string& name = words[0];
    requireName(name);
    const Secrecy secrecy = context.secrets.of(name);
    const std::string value = valueOf(words[1]);
    if (value.empty()) {
        throw UsageError("VALUE is empty: nginx limits no request whose key is empty");
    }
    if (isShortened(value)) {
        requireSecret(secrecy, name, value);
        return context.prefix + name + ":{" + value + "}";
    }
    std::string key(logKeyCapacity(context.prefix, name), '\0');
    key.resize(writeLogKey(key.data(), context.prefix, name, value, secrecy));
    return key;
}

std::string wholeKey(Store& store, const Context& context, std::string key) {
    const std::string_view rest = std::string_view(key).substr(context.prefix.size());
    if (!isShortened(valueIn(rest, nameIn(rest)))) {
        return key;
    }
    const std::string begin = key.substr(0, key.size() - 1);
    std::set<std::string> found;
    const Scanned scanned =
        scan(store, escapeGlob(begin) + "*", {.pauseMs = 1, .mostMs = kMostScanMs},
             [&](const Endpoint&, const std::vector<std::string>& keys) {
                 for (const std::string& each : keys) {  // also what lies beside a log: it may have left
                     found.insert(each.substr(0, each.find('}', begin.size()) + 1));
                 }
             });
    if (!scanned.isComplete()) {
        tellUnseen(scanned);
        throw CouldNotAsk("not all keys were seen: whether " + printable(key) + " is one log is not known");
    }
    if (found.size() != 1) {
        throw CouldNotAsk((found.empty() ? "no log" : grouped(static_cast<std::int64_t>(found.size())) + " logs") +
                          " of " + printable(key) +
                          (found.empty() ? ": no key in Redis begins like this, expected the secret itself, or -"
                                         : ": expected the full key of one, as top without --secret shows it"));
    }
    return *found.begin();
}

bool hasLog(Store& store, const std::string& key) {
    const Reply type = store.ask(key, {"TYPE", key});
    return type.isError() || type.text() != "none";
}

bool isName(std::string_view name) {
    constexpr std::size_t longest = 64;
    return !name.empty() && name.size() <= longest && std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
               c == '-';
    });
}

void requireName(std::string_view name) {
    if (!isName(name)) {
        throw UsageError("\"" + printable(name) +
                         "\" is not the NAME of a limit, expected at most 64 of [A-Za-z0-9_.-]");
    }
}

std::string escapeGlob(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        if (std::string_view("*?[]\\^").find(c) != std::string_view::npos) {
            escaped.push_back('\\');
        }
        escaped.push_back(c);
    }
    return escaped;
}

std::string logPattern(std::string_view prefix, std::string_view name) {
    return escapeGlob(prefix) + (name.empty() ? "*" : std::string(name)) + ":{*}";
}

std::string recordPattern(std::string_view prefix, std::string_view name) {
    return escapeGlob(prefix) + (name.empty() ? "*" : std::string(name)) + ":*" +
           std::string(kOverrideSuffix.substr(1));
}

}  // namespace sliding_log::tool
