// Clients and upstream servers of nginx, which are no processes: HTTP/1.1, one request at a time on a connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http_client.hpp"
#include "kernel.hpp"

namespace simulate {

class Http1Client final : public HttpClient {
  public:
    Http1Client(Kernel& kernel, Address self, Address node);
    ~Http1Client() override { leave(0); }

    bool isFree() const override { return stream_ != nullptr && answered_ == nullptr; }
    void ask(std::string_view path, std::uint64_t number, Answered answered) override;

    /// Closes the connection.
    void leave(std::uint64_t number) override;

  private:
    void connected() override;
    void readable() override;
    void ended() override;
    void finish(const Answer& answer);

    std::string request_;
    bool isConnected_ = false;
    Answered answered_;
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
