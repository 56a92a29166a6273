// The Redis with the logs, as one object: a single server, the master behind Sentinels, or a cluster.
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
    std::vector<Endpoint> servers;  // some nodes of the cluster, or the Sentinels
    Mode mode = Mode::Standalone;
    std::string master;  // its name in the Sentinels
    Login login;
    Login sentinelLogin;
};

class Store {
  public:
    /// Finds the servers; throws CouldNotAsk if that fails.
    explicit Store(StoreSettings settings);

    Mode mode() const { return settings_.mode; }
    const StoreSettings& settings() const { return settings_; }

    /// The masters, each once.
    const std::vector<Endpoint>& masters() const { return masters_; }

    /// The number of hash slots that no master serves.
    std::size_t unservedSlots() const;

    /// The connection to this server, made at the first call; throws CouldNotAsk.
    Server& at(const Endpoint& endpoint);

    /// Asks the server that has the key, and follows redirects. All commands must be about this key. They are sent in
    /// one write; if one is redirected, all are sent again to the other server.
    std::vector<Reply> ask(std::string_view key, std::span<const Command> commands);
    Reply ask(std::string_view key, const Command& command);

    /// The number of redirects so far. What is valid for a connection (WATCH) is void if this has changed.
    std::size_t redirections() const { return redirections_; }

    /// Sends one command for each of many keys that were found on this server, in one write. A command whose key has
    /// moved is sent again to the other server.
    std::vector<Reply> askEach(const Endpoint& where, std::span<const std::string> keys,
                               std::span<const Command> commands);

    /// The type of each key.
    std::vector<Reply> typesOf(const Endpoint& where, std::span<const std::string> keys);

    /// Reads again which server serves which hash slots; true if nothing has changed.
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
