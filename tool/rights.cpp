#include "rights.hpp"

#include <algorithm>
#include <set>

#include "decision.hpp"
#include "limit/key.hpp"
#include "random.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

/// Redis's own answer for this user, given inside a script as the module's commands are: ACL DRYRUN would need a right
/// of its own. A command the server does not know is none that it refuses.
constexpr std::string_view kProbe = R"(
local denied = {}
for i = 1, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '[^|]+') do
    words[#words + 1] = word
  end
  words[#words + 1] = KEYS[1]
  local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
  if known and not allowed then
    denied[#denied + 1] = ARGV[i]
  end
end
return denied
)";

std::string shaOf(std::string_view script) {
    std::string sha(40, '\0');
    writeSha1Hex(sha.data(), script);
    return sha;
}

/// In ACL's own writing: `config|get`.
std::set<std::string> neededRights(const StoreSettings& settings, std::span<const Form* const> forms) {
    std::set<std::string> needed = {"evalsha", "script|load"};
    for (const Form* form : forms) {
        needed.insert(form->commands.begin(), form->commands.end());
    }
    if (settings.login.database != 0) {
        needed.insert("select");
    }
    if (settings.mode == Mode::Sentinel) {
        needed.insert("role");
    }
    if (settings.mode == Mode::Cluster) {
        needed.insert({"cluster|slots", "asking"});
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

}  // namespace

void inspectRights(Findings& findings, Server& server, const StoreSettings& settings, const std::string& prefix,
                   std::span<const Form* const> forms) {
    const Reply loaded = server.ask({"SCRIPT", "LOAD", std::string(kProbe)});
    if (loaded.isError()) {
        findings.add("rights", Status::Critical, "SCRIPT LOAD answered: " + printable(loaded.text()));
        return;
    }
    const std::set<std::string> needed = neededRights(settings, forms);
    const Reply denied = askAboutOwnKey(server, prefix, [&](const std::string& key) {
        Command command = {"EVALSHA", shaOf(kProbe), "1", key};
        command.insert(command.end(), needed.begin(), needed.end());
        return command;
    });
    if (denied.isError()) {
        findings.add("rights", Status::Critical, "EVALSHA answered: " + printable(denied.text()));
        return;
    }
    if (denied.size() == 0) {
        findings.add("rights", Status::Ok, "all " + std::to_string(needed.size()) + " commands of the module");
        return;
    }
    std::string lacking;
    for (std::size_t i = 0; i < denied.size(); i++) {
        lacking += " +" + printable(denied[i].text());
    }
    findings.add("rights", Status::Critical, "the user lacks" + lacking);
}

void inspectScripts(Findings& findings, Server& server, const std::string& prefix, std::span<const Form* const> forms) {
    std::string names;
    for (const Form* form : forms) {
        names += (names.empty() ? "" : ", ") + std::string(form->name);
        try {
            load(server, scriptOf(form->algorithm));
            const std::string name = std::to_string(randomBits());
            const Reply reply = askAboutOwnKey(server, prefix, [&](const std::string& key) {
                return decide(*form, key, {1, 0, 1000, 1000}, std::span(&name, 1));
            });
            if (admittedIn(reply) != 0) {
                findings.add("scripts", Status::Critical, std::string(form->name) + ": admitted against a limit of 0");
                return;
            }
        } catch (const CouldNotAsk& failure) {
            findings.add("scripts", Status::Critical, std::string(form->name) + ": " + failure.what());
            return;
        }
    }
    findings.add("scripts", Status::Ok, "loaded and run: " + names);
}

}  // namespace sliding_log::tool
