// MODULE UNLOAD, which kills some servers:
// - Redis 8 remembers the last command of each connection and calls it again without looking for it, also when its
//   module was unloaded meanwhile. So the module refuses to be unloaded there as long as its command is the last one of
//   a connection; in the meantime callers are made to use the scripts.
// - Redis 7.2 and later, and Valkey before 9.1, stop with a failed assertion in
//   ACLRecomputeCommandBitsFromCommandRulesAllUsers if the rules of a user name a command that is gone. So the module
//   refuses to be unloaded there while there is such a rule. Valkey 9.1 refuses it itself.
#pragma once

#include "redis_module.hpp"

namespace sliding_log::native {

/// True for ten seconds after an unload was refused because of connections: the command then answers kWithdrawn, which
/// makes callers use the scripts on the same connection.
bool isWithdrawn();

inline constexpr const char* kWithdrawn = "ERR unknown command 'sliding_log.2': it is about to be unloaded";

/// To be called when the module is loaded: the library may have stayed in memory since it was unloaded.
void clearWithdrawn();

/// True if the module may be unloaded now; otherwise the server's log says why not. After an earlier refusal it closes
/// connections whose last command is the module's and that have been idle for a second.
bool mayUnload(RedisModuleCtx* context);

}  // namespace sliding_log::native
