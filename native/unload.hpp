// MODULE UNLOAD, which kills some servers:
// - Redis 8 remembers the last command of each connection and calls it again without looking for it, also when its
//   module was unloaded meanwhile. So the module refuses to be unloaded there until no connection has its command for
//   the last one, and lets go of them meanwhile.
// - Redis 7.2 and later, and Valkey before 9.1, stop with a failed assertion in
//   ACLRecomputeCommandBitsFromCommandRulesAllUsers if the rules of a user name a command that is gone. So the module
//   refuses to be unloaded there while such a rule is. Valkey 9.1 refuses it itself.
#pragma once

#include "redis_module.hpp"

namespace sliding_log::native {

/// True for ten seconds after an unload was refused because of connections: the command then answers kWithdrawn, which
/// makes callers use the scripts on the same connection.
bool isWithdrawn();

inline constexpr const char* kWithdrawn = "ERR unknown command 'sliding_log.2': it is about to be unloaded";

/// At the beginning: the library may have stayed in memory since it was unloaded.
void clearWithdrawn();

/// True if the module may be unloaded now; else the server's log says why not. Connections that have been idle for a
/// second, with its command for the last one, are closed for that.
bool mayUnload(RedisModuleCtx* context);

}  // namespace sliding_log::native
