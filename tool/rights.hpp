// Whether a user can do what the module does: the rights, and the scripts themselves.
#pragma once

#include <span>
#include <string>

#include "command.hpp"
#include "findings.hpp"
#include "forms.hpp"
#include "use.hpp"

namespace sliding_log::tool {

inline constexpr Option kCheckUserOption{
    "--check-user", "NAME", "the ACL user whose rights are checked, by ACL DRYRUN; the user of the connection"};

/// Whether this user may run the command, by ACL DRYRUN. Throws CouldNotAsk.
bool mayRun(Server& server, const std::string& user, const Command& command);

/// Asks Redis about each command, for our user or that of --check-user, without executing it.
void inspectRights(Findings& findings, Server& server, const Context& context, const Use& use);

/// Loads each script, and lets it deny a request of a key that does not exist, which writes nothing.
void inspectScripts(Findings& findings, Server& server, const std::string& prefix, std::span<const Form* const> forms);

}  // namespace sliding_log::tool
