// One connection to one Redis or Sentinel: hiredis, waiting for each answer no longer than the timeout.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "redis/endpoint.hpp"
#include "redis/tls.hpp"
#include "reply.hpp"

namespace sliding_log::tool {

using Command = std::vector<std::string>;

/// How to speak to a server. Secrets stay here.
struct Login {
    std::string username;
    std::string password;
    int database = 0;
    int timeoutMs = 5000;
    const Tls* tls = nullptr;  // none: in the clear
};

class Server {
  public:
    /// Connects and logs in; throws CouldNotAsk.
    Server(const Endpoint& endpoint, const Login& login);

    /// Throw CouldNotAsk when there is no answer; an error that Redis answers is a reply.
    Reply ask(const Command& command);
    std::vector<Reply> ask(std::span<const Command> commands);  // in one write

    const std::string& name() const { return name_; }
    const Endpoint& endpoint() const { return endpoint_; }

  private:
    void append(const Command& command);
    Reply take();
    [[noreturn]] void fail(const std::string& reason) const;

    struct Free {
        void operator()(redisContext* context) const { redisFree(context); }
    };
    Endpoint endpoint_;
    std::string name_;
    int timeoutMs_;
    std::unique_ptr<redisContext, Free> context_;
};

/// `host:port`, `[address]:port` or `unix:/path`.
std::string nameOf(const Endpoint& endpoint);

}  // namespace sliding_log::tool
