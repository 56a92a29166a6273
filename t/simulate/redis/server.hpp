// A Redis 7.0 of the simulator: the commands that the module, its scripts and its tool send, over a keyspace in memory.
// Decisions are made by native/ itself, or by the scripts in lua/ in a Lua 5.1.
//
// All of it is deterministic: no time but the clock that is given, no random numbers, no order by hashes or addresses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simulate {

class Keyspace;
struct ServerState;

/// One connection, as the server sees it.
struct Client {
    bool isAuthenticated = false;  // else it is when the server has no password
    std::string user = "default";
    bool isAsking = false;    // the next command may use a slot that is imported
    bool isReadOnly = false;  // READONLY: a replica of a cluster may be read
    bool isInTransaction = false;
    bool isTransactionRefused = false;
    std::vector<std::vector<std::string>> queued;  // behind MULTI
    std::uint64_t id = 0;                          // set by the first command
};

/// What one command changed, as commands that depend on nothing but the keyspace: all of them are applied, or none.
struct Effect {
    std::vector<std::vector<std::string>> commands;
};

enum class Role { Master, Replica };

/// Which module the server has.
enum class NativeVersion {
    None,
    Current,
    WithoutShortCalls,  // of the version before: short calls have the wrong number of arguments
    WithoutOverrides,   // before that: it does not know the option override, nor ended, nor plain calls with costs
    OtherCommand,       // sliding_log.2 is unknown to it, or it is about to be unloaded
};

/// How many blocks of their code all native modules have executed: loops of theirs call no function of the API.
std::uint64_t blocksOfNative();

/// What runs the scripts of EVALSHA.
enum class Scripts { ByNative, ByLua };

/// What a master answers to writes while min-replicas-to-write is not met.
constexpr std::string_view kNoReplicas = "NOREPLICAS Not enough good replicas to write.";

enum class Eviction { None, AllKeysLru, VolatileLru, VolatileTtl };

/// What a node of a cluster believes of its cluster. Each node has its own, which may be stale.
struct ClusterView {
    static constexpr std::size_t kSlots = 16384;
    static constexpr int kNobody = -1;

    struct Node {
        std::string id;  // 40 hex digits
        std::string host;
        int port = 0;
        int master = kNobody;  // of a replica: the index of its master
    };

    std::vector<Node> nodes;
    int self = 0;
    std::vector<std::int16_t> owner = std::vector<std::int16_t>(kSlots, kNobody);  // index of the master of each slot
    std::map<std::uint16_t, int> migrating;                                        // slot -> the node that it goes to
    std::map<std::uint16_t, int> importing;  // slot -> the node that it comes from
    bool isDown = false;                     // CLUSTERDOWN
};

struct ServerSettings {
    std::string host = "127.0.0.1";
    int port = 6379;
    std::string nativeModule;  // the path of redis_sliding_log.so; "": NativeVersion::None whatever is set
    Scripts scripts = Scripts::ByNative;
};

class Server {
  public:
    /// `clockUs`: this server's own clock, us since 1970. It must not change during a command.
    Server(const std::int64_t* clockUs, ServerSettings settings);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    /// Executes one command of a client and appends its reply (RESP2) to `reply`. Returns how long a Redis works for
    /// that (us), by a model whose figures are those of docs/algorithms.md and docs/benchmarks.md.
    std::int64_t execute(Client& client, std::span<const std::string_view> words, std::string& reply);

    // ---- faults

    void setNative(NativeVersion version);
    NativeVersion native() const;

    void scriptFlush();

    void setRole(Role role);
    Role role() const;
    void setMaster(std::string host, int port);

    void setLoading(bool isLoading);
    void setBusy(bool isBusy);                // a script runs for long
    void setMasterDown(bool isDown);          // a replica answers MASTERDOWN
    void setWriteRefusal(std::string error);  // "MISCONF …"; "": none

    /// min-replicas-to-write: with fewer replicas that are not behind, a master accepts no writes.
    void setLeastReplicas(std::size_t least);
    void setGoodReplicas(std::size_t good);

    /// The passwords of a user; any of them is right. No user has any: no password is needed. Connections that are
    /// authenticated stay so.
    void setPasswords(const std::string& user, std::vector<std::string> passwords);

    /// NOPERM for this command (lower case), also in scripts.
    void forbid(const std::string& command);
    void permit(const std::string& command);

    void setMemory(std::uint64_t maxmemory, Eviction policy);
    std::uint64_t usedMemory() const;

    /// Evicts one key by the policy, as if there were no memory; false if there is none.
    bool evictOne();
    bool removeKey(std::string_view key);
    void flushAll();

    /// Removes at most so many keys that have expired. A Redis does so ten times a second; a replica does not.
    std::size_t expire(std::size_t most);

    // ---- cluster

    /// nullopt: no cluster.
    std::optional<ClusterView>& cluster();

    std::vector<std::string> keysInSlot(std::uint16_t slot, std::size_t most) const;

    /// MIGRATE of one key; false if it is not here.
    bool migrate(std::string_view key, Server& to);

    // ---- replication

    /// Off at the beginning: effects take memory.
    void keepEffects(bool keeps);

    /// Those from firstOffset() on.
    const std::deque<Effect>& effects() const;
    std::uint64_t firstOffset() const;

    /// The number of effects so far; of a replica, of those that were applied.
    std::uint64_t offset() const;
    void forgetEffectsBefore(std::uint64_t offset);

    /// On a replica: the next effect of its master. It is kept for replicas of this one, if it keeps any.
    void apply(const Effect& effect);

    /// A full synchronization.
    void copyFrom(const Server& master);

    // ---- for checks

    const Keyspace& keyspace() const;

  private:
    std::unique_ptr<ServerState> state_;
};

}  // namespace simulate
