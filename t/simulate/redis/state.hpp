// What a simulated server is.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keyspace.hpp"
#include "lua_scripts.hpp"
#include "native_module.hpp"
#include "server.hpp"

namespace simulate {

struct ServerState {
    ServerState(const std::int64_t* clockUs, ServerSettings settings)
        : clockUs(clockUs), settings(std::move(settings)) {}

    const std::int64_t* clockUs;
    ServerSettings settings;
    Keyspace keys;
    std::unique_ptr<NativeModule> module;
    std::map<std::string, std::string, std::less<>> scripts;  // SHA-1 -> source; "": it is one of the module
    std::unique_ptr<NativeModule> decider;                    // for scripts
    std::unique_ptr<LuaScripts> lua;                          // made on demand

    NativeVersion native = NativeVersion::None;
    Role role = Role::Master;
    std::string masterHost;
    int masterPort = 0;
    bool isLoading = false;
    bool isBusy = false;
    bool isMasterDown = false;
    std::string writeRefusal;
    std::size_t leastReplicas = 0;
    std::size_t goodReplicas = 0;
    std::map<std::string, std::vector<std::string>, std::less<>> passwords;  // of users
    std::set<std::string, std::less<>> forbidden;
    std::uint64_t maxmemory = 0;
    Eviction policy = Eviction::None;
    std::optional<ClusterView> cluster;

    bool keepsEffects = false;
    std::deque<Effect> effects;
    std::uint64_t offset = 0;  // the number of effects so far
    std::uint64_t evicted = 0;
    std::uint64_t commands = 0;
    std::uint64_t clients = 0;

    std::uint64_t usedMemory() const;

    /// Why no writes are accepted now, except from its master; empty: they are.
    std::string_view refusalOfWrites() const;
};

}  // namespace simulate
