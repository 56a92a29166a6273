#include "store.hpp"

#include <algorithm>
#include <utility>

#include "failure.hpp"
#include "interrupt.hpp"
#include "redis/slot_map.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::uint16_t kNobody = 0xffff;
constexpr int kMostRedirections = 16;
constexpr int kAgainAfterMs = 50;

/// The error by which a server redirects us, as the reply or in that of EXEC: MOVED, ASK or TRYAGAIN.
std::optional<ReplyView> redirectionIn(ReplyView reply) {
    const std::string_view word = reply.errorWord();
    if (word == "MOVED" || word == "ASK" || word == "TRYAGAIN") {
        return reply;
    }
    for (std::size_t i = 0; i < reply.size(); i++) {
        if (const std::optional<ReplyView> inside = redirectionIn(reply[i])) {
            return inside;
        }
    }
    return std::nullopt;
}

std::optional<ReplyView> redirectionIn(const std::vector<Reply>& replies) {
    for (const Reply& reply : replies) {
        if (const std::optional<ReplyView> redirection = redirectionIn(static_cast<ReplyView>(reply))) {
            return redirection;
        }
    }
    return std::nullopt;
}

}  // namespace

Store::Store(StoreSettings settings) : settings_(std::move(settings)) {
    switch (settings_.mode) {
        case Mode::Standalone:
            masters_ = {settings_.servers.front()};
            at(masters_.front());
            break;
        case Mode::Sentinel:
            locateMaster();
            break;
        case Mode::Cluster:
            refresh();
            break;
    }
}

Server& Store::at(const Endpoint& endpoint) {
    std::unique_ptr<Server>& server = servers_[nameOf(endpoint)];
    if (server == nullptr) {
        server = std::make_unique<Server>(endpoint, settings_.login);
    }
    return *server;
}

void Store::locateMaster() {
    std::string reasons;
    for (const Endpoint& each : settings_.servers) {
        try {
            Server sentinel(each, settings_.sentinelLogin);
            const Reply reply = sentinel.ask({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", settings_.master});
            const std::optional<int> port = parsePort(reply[1].text());
            if (port && isHost(reply[0].text())) {
                const std::string host(reply[0].text());
                masters_ = {Endpoint{host, *port, "", host}};
                const Reply role = at(masters_.front()).ask({"ROLE"});
                if (!role.isError() && role[0].text() != "master") {
                    throw CouldNotAsk(nameOf(masters_.front()) + ": is not a master: " + printable(role[0].text()));
                }
                return;
            }
            reasons +=
                "; " + nameOf(each) + ": " + (reply.isError() ? printable(reply.text()) : "the master is unknown");
        } catch (const CouldNotAsk& failure) {
            reasons += std::string("; ") + failure.what();
        }
    }
    throw CouldNotAsk("no Sentinel knows the master \"" + printable(settings_.master) + "\"" + reasons);
}

bool Store::refresh() {
    if (settings_.mode != Mode::Cluster) {
        return true;
    }
    const auto owners = owners_;
    const std::vector<Endpoint> masters = masters_;
    std::string reasons;
    std::vector<Endpoint> known = masters;
    known.insert(known.end(), settings_.servers.begin(), settings_.servers.end());
    for (const Endpoint& each : known) {
        try {
            readMap(at(each));
            return owners == owners_ && masters == masters_;
        } catch (const CouldNotAsk& failure) {
            reasons += std::string(reasons.empty() ? "" : "; ") + failure.what();
        }
    }
    throw CouldNotAsk(reasons);
}

void Store::readMap(Server& server) {
    const Reply reply = server.ask({"CLUSTER", "SLOTS"});
    if (reply.isError()) {
        throw CouldNotAsk(server.name() + ": CLUSTER SLOTS answered: " + printable(reply.text()));
    }
    const std::vector<SlotRange> ranges = readSlotMap(*reply.raw());
    if (ranges.empty()) {
        throw CouldNotAsk(server.name() + ": the server knows no node that serves a slot");
    }
    masters_.clear();
    owners_.fill(kNobody);
    for (const SlotRange& range : ranges) {
        Endpoint master = server.endpoint();
        master.port = range.port;
        if (!range.host.empty()) {
            master.name = range.host;
            master.host = range.address.empty() ? range.host : range.address;
            master.path.clear();
        }
        auto found = std::ranges::find(masters_, master);
        if (found == masters_.end()) {
            found = masters_.insert(found, master);
        }
        std::fill(owners_.begin() + range.first, owners_.begin() + range.last + 1,
                  static_cast<std::uint16_t>(found - masters_.begin()));
    }
}

std::size_t Store::unservedSlots() const {
    return settings_.mode == Mode::Cluster ? static_cast<std::size_t>(std::ranges::count(owners_, kNobody)) : 0;
}

Endpoint Store::ownerOf(std::string_view key) const {
    if (settings_.mode != Mode::Cluster) {
        return masters_.front();
    }
    const std::uint16_t owner = owners_[hashSlotOf(key)];
    if (owner == kNobody) {
        throw CouldNotAsk("the cluster has no master for slot " + std::to_string(hashSlotOf(key)));
    }
    return masters_[owner];
}

Reply Store::ask(std::string_view key, const Command& command) {
    return std::move(ask(key, std::span(&command, 1)).front());
}

std::vector<Reply> Store::ask(std::string_view key, std::span<const Command> commands) {
    Endpoint where = ownerOf(key);
    bool asking = false;
    for (int i = 0; i < kMostRedirections; i++) {
        Server& server = at(where);
        std::vector<Reply> replies = askOnce(server, commands, asking);
        const std::optional<ReplyView> answer = redirectionIn(replies);
        if (!answer || settings_.mode != Mode::Cluster) {
            return replies;
        }
        redirections_++;
        const std::optional<Redirect> redirect = readRedirect(answer->text());
        if (!redirect) {  // TRYAGAIN: some of the keys are being moved
            pauseFor(kAgainAfterMs);
            continue;
        }
        asking = answer->errorWord() == "ASK";
        Endpoint next = server.endpoint();
        next.port = redirect->port;
        if (!redirect->host.empty()) {
            next.host = next.name = redirect->host;
            next.path.clear();
        }
        where = next;
        if (!asking) {
            refresh();
        }
    }
    throw CouldNotAsk("slot " + std::to_string(hashSlotOf(key)) + ": too many redirections");
}

std::vector<Reply> Store::askEach(const Endpoint& where, std::span<const std::string> keys,
                                  std::span<const Command> commands) {
    std::vector<Reply> replies = at(where).ask(commands);
    for (std::size_t i = 0; i < replies.size(); i++) {
        if (settings_.mode == Mode::Cluster && redirectionIn(static_cast<ReplyView>(replies[i]))) {
            replies[i] = ask(keys[i], commands[i]);
        }
    }
    return replies;
}

std::vector<Reply> Store::typesOf(const Endpoint& where, std::span<const std::string> keys) {
    std::vector<Command> commands(keys.size());
    std::ranges::transform(keys, commands.begin(), [](const std::string& key) { return Command{"TYPE", key}; });
    return askEach(where, keys, commands);
}

/// ASKING is sent before each command; inside MULTI, where it would be queued, that before MULTI is valid.
std::vector<Reply> Store::askOnce(Server& server, std::span<const Command> commands, bool asking) {
    if (!asking) {
        return server.ask(commands);
    }
    std::vector<Command> sent;
    std::vector<bool> ours;
    bool inMulti = false;
    for (const Command& command : commands) {
        if (!inMulti) {
            sent.push_back({"ASKING"});
            ours.push_back(true);
        }
        inMulti = command.front() == "MULTI" || (inMulti && command.front() != "EXEC");
        sent.push_back(command);
        ours.push_back(false);
    }
    std::vector<Reply> replies = server.ask(sent);
    std::vector<Reply> wanted;
    for (std::size_t i = 0; i < replies.size(); i++) {
        if (!ours[i]) {
            wanted.push_back(std::move(replies[i]));
        }
    }
    return wanted;
}

}  // namespace sliding_log::tool
