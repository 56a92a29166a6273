// EVALSHA, SCRIPT and the command of the native module: decisions.
//
// A script has the KEYS and ARGV that the native module has as its arguments, and the same reply. So native/ decides in
// place of the scripts of the module, unless these run themselves (Scripts::ByLua), or one of their commands may be
// refused.
#include <openssl/sha.h>

#include <algorithm>

#include "commands.hpp"
#include "limit/key.hpp"
#include "redis/native_command.hpp"
#include "redis/scripts.hpp"
#include "state.hpp"

namespace simulate {

namespace {

constexpr std::int64_t kScriptNs = 8'000;  // a script takes longer than the module by this
constexpr std::int64_t kKeyOfScriptNs = 3'000;
constexpr std::int64_t kKeyOfNativeNs = 400;

/// The algorithm whose script it is.
const sliding_log::AlgorithmRow* algorithmOf(std::string_view sha) {
    const auto found = std::ranges::find(sliding_log::kAlgorithms, sha, [](const sliding_log::AlgorithmRow& row) {
        return sliding_log::scriptSha(row.algorithm);
    });
    return found == sliding_log::kAlgorithms.end() ? nullptr : &*found;
}

LuaScripts& luaOf(ServerState& state) {
    if (!state.lua) {
        state.lua = std::make_unique<LuaScripts>();
    }
    return *state.lua;
}

void load(Execution& execution, std::string_view source) {
    constexpr std::int64_t kByteNs = 20;  // it is compiled
    ServerState& state = execution.state();
    std::string sha(2 * SHA_DIGEST_LENGTH, ' ');
    bool isOfModule = false;
    for (const sliding_log::AlgorithmRow& row : sliding_log::kAlgorithms) {
        if (sliding_log::scriptSource(row.algorithm) == source) {
            sha = sliding_log::scriptSha(row.algorithm);
            isOfModule = true;
        }
    }
    if (!isOfModule) {
        sliding_log::writeSha1Hex(sha.data(), source);
    }
    if (!state.scripts.contains(sha)) {
        execution.works(kByteNs * static_cast<std::int64_t>(source.size()));
        if (const std::string error = isOfModule ? std::string() : luaOf(state).compile(sha, source); !error.empty()) {
            return execution.error("ERR Error compiling script (new function): " + error);
        }
        state.scripts.emplace(sha, isOfModule ? std::string_view() : source);
    }
    appendBulk(execution.reply(), sha);
}

void script(Execution& execution, Words words) {
    ServerState& state = execution.state();
    if (isWord(words[1], "LOAD") && words.size() == 3) {
        load(execution, words[2]);
    } else if (isWord(words[1], "EXISTS") && words.size() > 2) {
        appendArray(execution.reply(), words.size() - 2);
        for (const std::string_view sha : words.subspan(2)) {
            appendInteger(execution.reply(), state.scripts.contains(lowerCase(sha)) ? 1 : 0);
        }
    } else if (isWord(words[1], "FLUSH")) {
        state.scripts.clear();
        appendStatus(execution.reply(), "OK");
    } else {
        execution.error(kSyntax);
    }
}

/// A command may be refused inside a script. Then the script itself tells what happens.
bool mayRefuse(const ServerState& state) {
    return state.role == Role::Replica || !state.refusalOfWrites().empty() ||
           std::ranges::any_of(state.forbidden,
                               [](std::string_view command) { return !command.starts_with("sliding_log."); });
}

void decideByNative(Execution& execution, std::string_view algorithm, Words words) {
    std::vector<std::string_view> native = {sliding_log::kNativeCommand, algorithm};
    native.insert(native.end(), words.begin() + 2, words.end());
    execution.state().decider->decide(execution, native);
}

void evalsha(Execution& execution, Words words) {
    ServerState& state = execution.state();
    std::int64_t keys = 0;
    if (!integerIn(words[2], keys)) {
        return execution.error(kNotInteger);
    }
    if (keys > static_cast<std::int64_t>(words.size()) - 3) {
        return execution.error("ERR Number of keys can't be greater than number of args");
    }
    if (keys < 0) {
        return execution.error("ERR Number of keys can't be negative");
    }
    const std::string sha = lowerCase(words[1]);
    const auto found = state.scripts.find(sha);
    if (found == state.scripts.end()) {
        return execution.error("NOSCRIPT No matching script. Please use EVAL.");
    }
    execution.works(kScriptNs + keys * kKeyOfScriptNs);
    const sliding_log::AlgorithmRow* row = found->second.empty() ? algorithmOf(sha) : nullptr;
    if (row != nullptr && state.decider && !mayRefuse(state)) {
        return decideByNative(execution, row->name, words);
    }
    LuaScripts& lua = luaOf(state);
    lua.compile(sha, row != nullptr ? sliding_log::scriptSource(row->algorithm) : found->second);
    lua.run(execution, sha, words);
}

/// What a module of an older version answers to a call that it does not know; empty: it knows the call.
std::string_view lackOf(NativeVersion version, Words words) {
    const bool isShort = words[1].find(' ') != std::string_view::npos;
    if (version == NativeVersion::Current) {
        return {};
    }
    if (isShort) {
        return "ERR wrong number of arguments for 'sliding_log.2' command";
    }
    std::int64_t keys = 0;
    if (version == NativeVersion::WithoutShortCalls || !integerIn(words[2], keys)) {
        return {};
    }
    const bool hasCosts =
        words[1] == "compact" && keys > 0 && static_cast<std::int64_t>(words.size()) == 3 + 2 * keys + 3;
    if (hasCosts) {
        return "ERR sliding_log.2: wrong arguments";
    }
    const bool hasNewOption = std::ranges::any_of(words.subspan(3), [](std::string_view word) {
        const std::size_t behind = word.rfind(' ') + 1;
        return word.substr(behind) == "override" || word.find("ended=") != std::string_view::npos ||
               word.find("override told") != std::string_view::npos;
    });
    return hasNewOption ? "ERR sliding_log.2: unknown option" : std::string_view();
}

void native(Execution& execution, Words words) {
    ServerState& state = execution.state();
    if (const std::string_view lack = lackOf(state.native, words); !lack.empty()) {
        return execution.error(lack);
    }
    execution.works(kKeyOfNativeNs);
    state.module->decide(execution, words);
}

constexpr CommandRow kScriptCommands[] = {
    {"evalsha", evalsha, -3, kRunsScript | kWhileStale | kNotInScripts, 0, 0},
    {"script", script, -2, kWhileStale | kNotInScripts, 0, 0},
    {"sliding_log.1", native, -3, kRunsScript | kWrites | kNotInScripts, 0, 0},
    {"sliding_log.2", native, -3, kRunsScript | kWrites | kNotInScripts, 0, 0},
};

}  // namespace

std::span<const CommandRow> scriptCommands() {
    return kScriptCommands;
}

}  // namespace simulate
