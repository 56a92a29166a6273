// The Redis that keeps the logs, as one thing: a single server, the master behind Sentinels, or a cluster.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redis/hash_slots.hpp"
#include "server.hpp"

namespace sliding_log::tool {

enum class Mode { Standalone, Cluster, Sentinel };

struct StoreSettings {
    std::vector<Endpoint> servers;  // of the cluster some, or the Sentinels
    Mode mode = Mode::Standalone;
    std::string master;  // its name at the Sentinels
    Login login;
    Login sentinelLogin;
};

class Store {
  public:
    /// Finds the servers; throws CouldNotAsk when that cannot be done.
    explicit Store(StoreSettings settings);

    Mode mode() const { return settings_.mode; }
    const StoreSettings& settings() const { return settings_; }

    /// The masters, each once.
    const std::vector<Endpoint>& masters() const { return masters_; }

    /// How many slots of a cluster no master serves.
    std::size_t unservedSlots() const;

    /// The connection to that server, made when first asked for; throws CouldNotAsk.
    Server& at(const Endpoint& endpoint);

    /// Asks the server that has the key, wherever it has moved to. All commands are about this key. They go in one
    /// write, and again in whole to another server where one is redirected.
    std::vector<Reply> ask(std::string_view key, std::span<const Command> commands);
    Reply ask(std::string_view key, const Command& command);

    /// How often a server sent us to another one: what holds for a connection (WATCH) is void when this has changed.
    std::size_t redirections() const { return redirections_; }

    /// One command for each of many keys that were found on that server, in one write; each follows its key where that
    /// has moved to.
    std::vector<Reply> askEach(const Endpoint& where, std::span<const std::string> keys,
                               std::span<const Command> commands);

    /// The type of each.
    std::vector<Reply> typesOf(const Endpoint& where, std::span<const std::string> keys);

    /// Reads again which server has what; true when that is as it was.
    bool refresh();

  private:
    void locateMaster();
    void readMap(Server& server);
    Endpoint ownerOf(std::string_view key) const;
    std::vector<Reply> askOnce(Server& server, std::span<const Command> commands, bool asking);

    StoreSettings settings_;
    std::vector<Endpoint> masters_;
    std::array<std::uint16_t, kHashSlots> owners_{};  // index into masters_, kNobody
    std::map<std::string, std::unique_ptr<Server>> servers_;
    std::size_t redirections_ = 0;
};

}  // namespace sliding_log::tool
