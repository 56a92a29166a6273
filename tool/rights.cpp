#include "rights.hpp"

#include "failure.hpp"
#include "forms.hpp"
#include "limit/key.hpp"
#include "limit/override.hpp"
#include "random.hpp"
#include "script_call.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

/// Asks Redis itself about this user, in a script, as the module's commands run in one; ACL DRYRUN would need a right
/// of its own. Returns the numbers of the calls that are denied. A command that the server does not know is not denied.
/// Since Redis 8.0 a call needs as many arguments as the command takes: some are added until it does not complain.
/// Each argument is a call: what its key has behind the key of a log, `-`, then the words before the key.
constexpr std::string_view kProbe = R"(
local denied = {}
for i = 1, #ARGV do
  local words = {}
  local beside, call = string.match(ARGV[i], '^(%S*)- (.*)$')
  for word in string.gmatch(call, '%S+') do
    words[#words + 1] = word
  end
  words[#words + 1] = KEYS[1] .. beside
  local known, allowed
  repeat
    known, allowed = pcall(redis.acl_check_cmd, unpack(words))
    words[#words + 1] = '0'
  until known or #words > 12
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

/// The user has no right to ask about another user.
struct MayNotAsk : CouldNotAsk {
    using CouldNotAsk::CouldNotAsk;
};

/// A call of the command, without the key at its end.
Command callOf(const Right& right) {
    const std::size_t bar = right.name.find('|');
    if (right.name == "evalsha") {
        return {right.name, "sha", "1"};
    }
    return bar == std::string::npos ? Command{right.name}
                                    : Command{right.name.substr(0, bar), right.name.substr(bar + 1)};
}

/// Asks about a key that this server serves: in a cluster, one of its own hash slots.
Reply askAboutOwnKey(Server& server, const std::string& prefix, const auto& commandFor) {
    constexpr int most = 2000;  // finds a node that serves one slot in a hundred
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
            std::string call = std::string(right.beside) + "- ";
            for (const std::string& word : callOf(right)) {
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

Reply dryRun(Server& server, const std::string& user, const Command& call) {
    Command command = {"ACL", "DRYRUN", user};
    command.insert(command.end(), call.begin(), call.end());
    Reply reply = server.ask(command);
    if (reply.errorWord() == "NOPERM") {
        throw MayNotAsk("ACL DRYRUN requires +acl|dryrun");
    }
    return reply;
}

/// ACL DRYRUN requires as many arguments as the command takes: arguments are added until it does not complain.
std::vector<std::size_t> deniedTo(const std::string& user, Server& server, const std::string& prefix,
                                  std::span<const Right> needed) {
    constexpr int mostArguments = 4;
    std::vector<std::size_t> denied;
    for (std::size_t i = 0; i < needed.size(); i++) {
        Command call = callOf(needed[i]);
        Reply reply = dryRun(server, user, call);
        for (int added = 0; added < mostArguments && isOfArity(reply); added++) {
            call.push_back(added == 0 ? ownKey(prefix).append(needed[i].beside) : "1");
            reply = dryRun(server, user, call);
        }
        if (checked(reply, "ACL DRYRUN").text() != "OK") {
            denied.push_back(i);
        }
    }
    return denied;
}

}  // namespace

bool mayRun(Server& server, const std::string& user, const Command& command) {
    return checked(dryRun(server, user, command), "ACL DRYRUN").text() == "OK";
}

void inspectRights(Findings& findings, Server& server, const Context& context, const Use& use) {
    std::vector<Right> needed = moduleRights(use);
    std::erase_if(needed, [](const Right& right) { return right.what == Right::For::Comfort; });
    const std::string other = context.arguments.text(kCheckUserOption.name);
    const std::string& ours = context.settings.login.username;
    const std::string user = "user \"" + printable(!other.empty() ? other : ours.empty() ? "default" : ours) + "\"";
    if (use.overrides) {
        needed.push_back({.name = "get", .beside = kOverrideSuffix});
    }
    std::string lacking;
    std::string lackingForBlock;
    try {
        for (const std::size_t i : other.empty() ? deniedToUs(server, context.prefix, needed)
                                                 : deniedTo(other, server, context.prefix, needed)) {
            const Right& right = needed.at(i);
            (right.what == Right::For::Block ? lackingForBlock : lacking) +=
                right.beside.empty() ? " +" + right.name : " " + readOnlyKeys(context.prefix, right.beside);
        }
    } catch (const MayNotAsk& failure) {
        findings.add("rights", Status::Warning, user + " could not be checked: " + failure.what());
        return;
    } catch (const CouldNotAsk& failure) {
        findings.add("rights", Status::Critical, user + ": " + failure.what());
        return;
    }
    if (!lacking.empty()) {
        findings.add("rights", Status::Critical, user + " lacks" + lacking + lackingForBlock);
    } else if (!lackingForBlock.empty()) {
        findings.add("rights", Status::Warning, user + " lacks" + lackingForBlock + ", required by block=");
    } else {
        findings.add("rights", Status::Ok,
                     user + " may run all " + std::to_string(needed.size()) + " commands of the module");
    }
}

void inspectScripts(Findings& findings, Server& server, const std::string& prefix, std::span<const Form* const> forms) {
    std::string names;
    for (const Form* form : forms) {
        names += (names.empty() ? "" : ", ") + std::string(form->name());
        try {
            loadScript(server, form->algorithm);
            const std::string name = std::to_string(randomBits());
            const CheckSettings settings{1, 0, 1000, 1000};
            const Reply reply = askAboutOwnKey(server, prefix, [&](const std::string& key) {
                return scriptCall(form->algorithm, key, settings, std::span(&name, 1));
            });
            admittedIn(reply, form->algorithm, settings, 1);
        } catch (const CouldNotAsk& failure) {
            findings.add("scripts", Status::Critical, std::string(form->name()) + ": " + failure.what());
            return;
        }
    }
    findings.add("scripts", Status::Ok, "loaded and run: " + names);
}

}  // namespace sliding_log::tool
