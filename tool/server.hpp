// One connection to one Redis or Sentinel: hiredis, which waits for each reply, at most for the timeout.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "password.hpp"
#include "redis/endpoint.hpp"
#include "redis/tls.hpp"
#include "reply.hpp"

namespace sliding_log::tool {

using Command = std::vector<std::string>;

/// How to log in to a server. It owns the secrets.
struct Login {
    std::string username;
    std::shared_ptr<Password> password = std::make_shared<Password>();  // of all connections with this login
    int database = 0;
    int timeoutMs = 5000;
    const Tls* tls = nullptr;  // nullptr: without TLS
};

class Server {
  public:
    /// Connects and logs in; throws CouldNotAsk.
    Server(const Endpoint& endpoint, const Login& login);

    /// Throw CouldNotAsk if there is no reply; an error of Redis is a reply.
    Reply ask(const Command& command);
    std::vector<Reply> ask(std::span<const Command> commands);  // in one write

    enum class Whose { Peer, Own };

    /// How long the certificate is still valid, by the clock of this machine; negative: it has ended. nullopt: there is
    /// none, as without TLS.
    std::optional<std::int64_t> certificateLeftMs(Whose whose) const;

    const std::string& name() const { return name_; }
    const Endpoint& endpoint() const { return endpoint_; }

  private:
    Reply authenticate(const std::string& password);
    void renewLogin();
    Reply exchange(const Command& command);
    void append(const Command& command);
    Reply take();
    [[noreturn]] void fail(const std::string& reason) const;

    struct Free {
        void operator()(redisContext* context) const { redisFree(context); }
    };
    Endpoint endpoint_;
    std::string name_;
    int timeoutMs_;
    std::string username_;
    std::shared_ptr<Password> password_;
    std::string sentPassword_;
    std::unique_ptr<redisContext, Free> context_;
    SSL* session_ = nullptr;  // of context_; nullptr: without TLS
};

/// `host:port`, `[address]:port` or `unix:/path`.
std::string nameOf(const Endpoint& endpoint);

}  // namespace sliding_log::tool
