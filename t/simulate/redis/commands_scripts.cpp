// EVALSHA, SCRIPT and the command of the native module: decisions.
//
// A script has the KEYS and ARGV that the native module has as its arguments, and the same reply. So native/ decides in
// place of the scripts of the module, unless these run themselves (Scripts::ByLua).
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

std::string shaOf(std::string_view source) {
    for (const sliding_log::AlgorithmRow& row : sliding_log::kAlgorithms) {
        if (sliding_log::scriptSource(row.algorithm) == source) {
            return std::string(sliding_log::scriptSha(row.algorithm));
        }
    }
    std::string sha(2 * SHA_DIGEST_LENGTH, ' ');
    sliding_log::writeSha1Hex(sha.data(), source);
    return sha;
}

void load(Execution& execution, std::string_view source) {
    constexpr std::int64_t kByteNs = 20;  // it is compiled
    ServerState& state = execution.state();
    std::string sha = shaOf(source);
    if (!state.scripts.contains(sha)) {
        execution.works(kByteNs * static_cast<std::int64_t>(source.size()));
        const std::string error = state.lua ? state.lua->compile(sha, std::string(source)) : std::string();
        if (!error.empty()) {
            return execution.error("ERR Error compiling script (new function): " + error);
        }
        state.scripts.insert(sha);
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
        if (state.lua) {
            state.lua->forget();
        }
        appendStatus(execution.reply(), "OK");
    } else {
        execution.error(kSyntax);
    }
}

/// A script is run, and refused when it writes. Those of the module write in nearly all calls.
std::string_view refusalOfWrites(const ServerState& state) {
    if (state.role == Role::Replica) {
        return kReadOnly;
    }
    return state.writeRefusal;
}

void runByNative(Execution& execution, std::string_view sha, Words words) {
    ServerState& state = execution.state();
    const sliding_log::AlgorithmRow* row = algorithmOf(sha);
    if (row == nullptr) {
        return execution.error("ERR only the scripts of the module are simulated");
    }
    if (const std::string_view refusal = refusalOfWrites(state); !refusal.empty() && words[2] != "0") {
        return execution.error(
            std::string(refusal).append(" script: ").append(sha).append(", on @user_script:1."));
    }
    std::vector<std::string_view> native = {sliding_log::kNativeCommand, row->name};
    native.insert(native.end(), words.begin() + 2, words.end());
    state.decider->decide(execution, native);
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
    if (!state.scripts.contains(sha)) {
        return execution.error("NOSCRIPT No matching script. Please use EVAL.");
    }
    execution.works(kScriptNs + keys * kKeyOfScriptNs);
    if (state.lua) {
        state.lua->run(execution, sha, words);
    } else if (state.decider) {
        runByNative(execution, sha, words);
    } else {
        execution.error("ERR nothing runs scripts");
    }
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

constexpr CommandRow kCommands[] = {
    {"evalsha", evalsha, -3, kRunsScript | kWhileStale | kNotInScripts, 0, 0},
    {"script", script, -2, kWhileStale | kNotInScripts, 0, 0},
    {"sliding_log.1", native, -3, kRunsScript | kWrites | kNotInScripts, 0, 0},
    {"sliding_log.2", native, -3, kRunsScript | kWrites | kNotInScripts, 0, 0},
};

}  // namespace

std::span<const CommandRow> scriptCommands() {
    return kCommands;
}

}  // namespace simulate
