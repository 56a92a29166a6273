// Commands of connections: login, transactions, and what a handshake asks.
#include <algorithm>

#include "commands.hpp"
#include "state.hpp"

namespace simulate {

namespace {

void ping(Execution& execution, Words words) {
    if (words.size() > 1) {
        appendBulk(execution.reply(), words[1]);
    } else {
        appendStatus(execution.reply(), "PONG");
    }
}

void echo(Execution& execution, Words words) {
    appendBulk(execution.reply(), words[1]);
}

void ok(Execution& execution, Words) {
    appendStatus(execution.reply(), "OK");
}

/// False after an error.
bool logIn(Execution& execution, std::string_view user, std::string_view password) {
    const auto& passwords = execution.state().passwords;
    const auto found = passwords.find(user);
    if (found == passwords.end() || std::ranges::find(found->second, password) == found->second.end()) {
        execution.error("WRONGPASS invalid username-password pair or user is disabled.");
        return false;
    }
    execution.client()->isAuthenticated = true;
    execution.client()->user = user;
    return true;
}

void auth(Execution& execution, Words words) {
    constexpr std::string_view kDefault = "default";
    if (words.size() > 3) {
        return execution.error(kSyntax);
    }
    if (words.size() == 2 && !execution.state().passwords.contains(kDefault)) {
        return execution.error(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
            "configuration is correct?");
    }
    if (logIn(execution, words.size() == 3 ? words[1] : kDefault, words.back())) {
        appendStatus(execution.reply(), "OK");
    }
}

/// In RESP2 only.
void hello(Execution& execution, Words words) {
    std::size_t next = 1;
    if (words.size() > 1) {
        if (words[1] != "2") {
            return execution.error("NOPROTO unsupported protocol version");
        }
        next = 2;
    }
    if (next + 2 < words.size() && isWord(words[next], "AUTH") && !logIn(execution, words[next + 1], words[next + 2])) {
        return;
    }
    const ServerState& state = execution.state();
    if (!state.passwords.empty() && !execution.client()->isAuthenticated) {
        return execution.error(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
            "<user> <pass> option can be used to authenticate the client and select the RESP protocol version at the "
            "same time");
    }
    std::string& reply = execution.reply();
    appendArray(reply, 14);
    for (const auto& [name, value] : {std::pair("server", "redis"), std::pair("version", "7.0.15")}) {
        appendBulk(reply, name);
        appendBulk(reply, value);
    }
    appendBulk(reply, "proto");
    appendInteger(reply, 2);
    appendBulk(reply, "id");
    appendInteger(reply, static_cast<std::int64_t>(execution.client()->id));
    appendBulk(reply, "mode");
    appendBulk(reply, state.cluster ? "cluster" : "standalone");
    appendBulk(reply, "role");
    appendBulk(reply, state.role == Role::Master ? "master" : "replica");
    appendBulk(reply, "modules");
    appendArray(reply, 0);
}

/// All databases are one.
void select(Execution& execution, Words words) {
    constexpr std::int64_t kDatabases = 16;
    std::int64_t number = 0;
    if (!integerIn(words[1], number)) {
        return execution.error("ERR invalid DB index");
    }
    if (execution.state().cluster && number != 0) {
        return execution.error("ERR SELECT is not allowed in cluster mode");
    }
    if (number < 0 || number >= kDatabases) {
        return execution.error("ERR DB index is out of range");
    }
    appendStatus(execution.reply(), "OK");
}

void asking(Execution& execution, Words) {
    if (!execution.state().cluster) {
        return execution.error("ERR This instance has cluster support disabled");
    }
    execution.client()->isAsking = true;
    appendStatus(execution.reply(), "OK");
}

template <bool isReadOnly>
void readOnly(Execution& execution, Words) {
    execution.client()->isReadOnly = isReadOnly;
    appendStatus(execution.reply(), "OK");
}

void client(Execution& execution, Words words) {
    if (isWord(words[1], "ID")) {
        return appendInteger(execution.reply(), static_cast<std::int64_t>(execution.client()->id));
    }
    if (isWord(words[1], "SETNAME")) {
        return appendStatus(execution.reply(), "OK");
    }
    execution.error("ERR unknown subcommand '" + std::string(words[1]) + "'. Try CLIENT HELP.");
}

void multi(Execution& execution, Words) {
    if (execution.client()->isInTransaction) {
        return execution.error("ERR MULTI calls can not be nested");
    }
    execution.client()->isInTransaction = true;
    appendStatus(execution.reply(), "OK");
}

std::vector<std::vector<std::string>> endTransaction(Client& client) {
    client.isInTransaction = client.isTransactionRefused = false;
    return std::exchange(client.queued, {});
}

void discard(Execution& execution, Words) {
    if (!execution.client()->isInTransaction) {
        return execution.error("ERR DISCARD without MULTI");
    }
    endTransaction(*execution.client());
    appendStatus(execution.reply(), "OK");
}

void exec(Execution& execution, Words) {
    Client& client = *execution.client();
    if (!client.isInTransaction) {
        return execution.error("ERR EXEC without MULTI");
    }
    const bool isRefused = client.isTransactionRefused;
    const std::vector<std::vector<std::string>> queued = endTransaction(client);
    if (isRefused) {
        return execution.error("EXECABORT Transaction discarded because of previous errors.");
    }
    appendArray(execution.reply(), queued.size());
    for (const std::vector<std::string>& command : queued) {
        const std::vector<std::string_view> words(command.begin(), command.end());
        execution.run(*commandNamed(words[0]), words);
    }
}

constexpr CommandRow kConnectionCommands[] = {
    {"asking", asking, 1, 0, 0, 0},
    {"auth", auth, -2, kAlways | kWhileBusy | kWithoutAuth | kNotInScripts, 0, 0},
    {"client", client, -2, kAlways | kNotInScripts, 0, 0},
    {"discard", discard, 1, kAlways | kWhileBusy | kNotInScripts, 0, 0},
    {"echo", echo, 2, 0, 0, 0},
    {"exec", exec, 1, kAlways | kWhileBusy | kNotInScripts, 0, 0},
    {"hello", hello, -1, kAlways | kWhileBusy | kWithoutAuth | kNotInScripts, 0, 0},
    {"multi", multi, 1, kAlways | kWhileBusy | kNotInScripts, 0, 0},
    {"ping", ping, -1, 0, 0, 0},
    {"quit", ok, -1, kAlways | kWhileBusy | kWithoutAuth | kNotInScripts, 0, 0},
    {"readonly", readOnly<true>, 1, kAlways, 0, 0},
    {"readwrite", readOnly<false>, 1, kAlways, 0, 0},
    {"select", select, 2, kAlways, 0, 0},
};

}  // namespace

std::span<const CommandRow> connectionCommands() {
    return kConnectionCommands;
}

}  // namespace simulate
