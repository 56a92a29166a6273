#include "rights.hpp"

#include <algorithm>
#include <set>

#include "decision.hpp"
#include "forms.hpp"
#include "limit/key.hpp"
#include "random.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

/// A command as ACL writes it (`config|get`), and a call of it, without the key at the end.
struct Right {
    std::string name;
    Command call;
    bool isForBlock = false;
};

/// Redis's own answer for this user, given inside a script as the module's commands are: ACL DRYRUN would need a right
/// of its own. Returns the numbers of the calls that are denied. A command the server does not know is none that it
/// refuses.
constexpr std::string_view kProbe = R"(
local denied = {}
for i = 1, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do
    words[#words + 1] = word
  end
  words[#words + 1] = KEYS[1]
  local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
  if known and not allowed then
    denied[#denied + 1] = i
  end
end
return denied
)";

std::string shaOf(std::string_view script) {
    std::string sha(40, '\0');
    writeSha1Hex(sha.data(), script);
    return sha;
}

std::vector<Right> neededRights(const StoreSettings& settings, std::span<const Form* const> forms) {
    std::vector<Right> needed = {{"evalsha", {"evalsha", "sha", "1"}}, {"script|load", {"script", "load"}}};
    std::set<std::string_view> names;
    std::set<std::string_view> forBlock;
    for (const Form* form : forms) {
        names.insert(form->commands.begin(), form->commands.end());
        forBlock.insert(form->blockCommands.begin(), form->blockCommands.end());
    }
    for (const std::string_view name : names) {
        needed.push_back({std::string(name), {std::string(name)}});
    }
    for (const std::string_view name : forBlock) {
        if (!names.contains(name)) {
            needed.push_back({std::string(name), {std::string(name)}, true});
        }
    }
    if (settings.login.database != 0) {
        needed.push_back({"select", {"select"}});
    }
    if (settings.mode == Mode::Sentinel) {
        needed.push_back({"role", {"role"}});
    }
    if (settings.mode == Mode::Cluster) {
        needed.push_back({"cluster|slots", {"cluster", "slots"}});
        needed.push_back({"asking", {"asking"}});
    }
    return needed;
}

/// A key that this server may be asked about: in a cluster, one of its own slots.
Reply askAboutOwnKey(Server& server, const std::string& prefix, const auto& commandFor) {
    constexpr int most = 2000;  // of a hundred nodes, one with a single slot in a hundred is found
    Reply reply(nullptr);
    for (int i = 0; i < most; i++) {
        reply = server.ask(commandFor(ownKey(prefix)));
        if (reply.errorWord() != "MOVED" && reply.errorWord() != "ASK") {
            break;
        }
    }
    return reply;
}

bool isOfArity(ReplyView reply) {
    return reply.text().find("wrong number of arguments") != std::string_view::npos;
}

std::vector<std::size_t> deniedToUs(Server& server, const std::string& prefix, std::span<const Right> needed) {
    const Reply loaded = server.ask({"SCRIPT", "LOAD", std::string(kProbe)});
    checked(loaded, "SCRIPT LOAD");
    const Reply reply = askAboutOwnKey(server, prefix, [&](const std::string& key) {
        Command command = {"EVALSHA", shaOf(kProbe), "1", key};
        for (const Right& right : needed) {
            std::string call;
            for (const std::string& word : right.call) {
                call += word + " ";
            }
            command.push_back(call);
        }
        return command;
    });
    checked(reply, "EVALSHA");
    std::vector<std::size_t> denied;
    for (std::size_t i = 0; i < reply.size(); i++) {
        denied.push_back(static_cast<std::size_t>(reply[i].numberOr(1) - 1));
    }
    return denied;
}

/// ACL DRYRUN wants as many arguments as the command takes: more are tried until it does not complain.
std::vector<std::size_t> deniedTo(const std::string& user, Server& server, const std::string& prefix,
                                  std::span<const Right> needed) {
    constexpr int mostArguments = 4;
    std::vector<std::size_t> denied;
    for (std::size_t i = 0; i < needed.size(); i++) {
        Command command = {"ACL", "DRYRUN", user};
        command.insert(command.end(), needed[i].call.begin(), needed[i].call.end());
        Reply reply = server.ask(command);
        for (int added = 0; added < mostArguments && isOfArity(reply); added++) {
            command.push_back(added == 0 ? ownKey(prefix) : "1");
            reply = server.ask(command);
        }
        if (checked(reply, "ACL DRYRUN").text() != "OK") {
            denied.push_back(i);
        }
    }
    return denied;
}

}  // namespace

void inspectRights(Findings& findings, Server& server, const Context& context, std::span<const Form* const> forms) {
    const std::vector<Right> needed = neededRights(context.settings, forms);
    const std::string user = context.arguments.text("--module-user");
    std::string lacking;
    std::string lackingForBlock;
    try {
        for (const std::size_t i : user.empty() ? deniedToUs(server, context.prefix, needed)
                                                : deniedTo(user, server, context.prefix, needed)) {
            (needed.at(i).isForBlock ? lackingForBlock : lacking) += " +" + needed.at(i).name;
        }
    } catch (const CouldNotAsk& failure) {
        findings.add("rights", Status::Critical, failure.what());
        return;
    }
    if (!lacking.empty()) {
        findings.add("rights", Status::Critical, "the user lacks" + lacking + lackingForBlock);
    } else if (!lackingForBlock.empty()) {
        findings.add("rights", Status::Warning, "the user lacks" + lackingForBlock + ", which block= needs");
    } else {
        findings.add("rights", Status::Ok, "all " + std::to_string(needed.size()) + " commands of the module");
    }
}

void inspectScripts(Findings& findings, Server& server, const std::string& prefix, std::span<const Form* const> forms) {
    std::string names;
    for (const Form* form : forms) {
        names += (names.empty() ? "" : ", ") + std::string(form->name());
        try {
            load(server, form->algorithm);
            const std::string name = std::to_string(randomBits());
            const Decision decision{1, 0, 1000, 1000};
            const Reply reply = askAboutOwnKey(server, prefix, [&](const std::string& key) {
                return decide(form->algorithm, key, decision, std::span(&name, 1));
            });
            admittedIn(reply, form->algorithm, decision, 1);
        } catch (const CouldNotAsk& failure) {
            findings.add("scripts", Status::Critical, std::string(form->name()) + ": " + failure.what());
            return;
        }
    }
    findings.add("scripts", Status::Ok, "loaded and run: " + names);
}

}  // namespace sliding_log::tool
