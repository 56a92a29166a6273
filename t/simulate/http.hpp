// Clients and upstream servers of nginx, which are no processes: HTTP/1.1, one request at a time on a connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernel.hpp"

namespace simulate {

/// What nginx answers.
struct Answer {
    int status = 0;  // 0: none, the connection has ended
    std::string source;
    std::string sources;  // by limit: NAME=SOURCE, behind a blank each
    std::string name;
    std::int64_t retryAfter = 0;  // s; 0: none
};

/// A connection to a node.
class HttpClient final : public Connection {
  public:
    HttpClient(Kernel& kernel, Address self, Address node);
    ~HttpClient() { leave(); }

    bool isIdle() const { return stream_ != nullptr && answered_ == nullptr; }

    /// Asks for a path; `answered` is called once, unless the client leaves before.
    void ask(std::string_view path, std::function<void(const Answer&)> answered);

    /// Closes the connection.
    void leave();

  private:
    void connected() override;
    void readable() override;
    void ended() override;
    void finish(const Answer& answer);

    std::string request_;
    bool isConnected_ = false;
    std::function<void(const Answer&)> answered_;
};

/// Answers `/…?s=STATUS&d=MS&x=COST&n=NUMBER`: with this status and X-Cost after so long; status 0 resets the
/// connection.
class AppServer final : Acceptor {
  public:
    /// Is told when the request of this number has come, and when it is answered or its connection has ended.
    struct Witness {
        virtual void began(std::uint64_t number) = 0;
        virtual void ended(std::uint64_t number) = 0;

      protected:
        ~Witness() = default;
    };

    AppServer(Kernel& kernel, Address address, Witness& witness);
    ~AppServer();
    AppServer(const AppServer&) = delete;
    AppServer& operator=(const AppServer&) = delete;

  private:
    class Served;
    void accepted(std::shared_ptr<Stream> stream) override;

    Kernel& kernel_;
    Address address_;
    Witness& witness_;
    std::vector<std::shared_ptr<Served>> connections_;
};

}  // namespace simulate
