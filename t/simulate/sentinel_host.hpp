// A Sentinel: it tells which Redis is the master, and those who listen when that changes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernel.hpp"

namespace simulate {

class SentinelHost final : Acceptor {
  public:
    /// The name of the master that all Sentinels know.
    static constexpr std::string_view kMaster = "limits";

    SentinelHost(Kernel& kernel, Address address, Address master);
    ~SentinelHost();
    SentinelHost(const SentinelHost&) = delete;
    SentinelHost& operator=(const SentinelHost&) = delete;

    Address address() const { return address_; }

    /// It leads a fail-over, and has promoted this server.
    void promoted(Address server);

    /// It learns that this server is the master.
    void learn(Address master);

    // ---- faults

    void crash();
    /// It remembers the master.
    void start();

  private:
    class Watcher;

    void accepted(std::shared_ptr<Stream> stream) override;
    void publish(std::string_view channel, const std::string& text);

    Kernel& kernel_;
    Address address_;
    Address master_;
    bool isUp_ = true;
    std::vector<std::unique_ptr<Watcher>> watchers_;
};

}  // namespace simulate
