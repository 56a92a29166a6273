// A Redis on a machine of its own: reads commands from connections, one thread executes them, and each takes its time.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernel.hpp"
#include "process.hpp"
#include "redis/server.hpp"
#include "traffic.hpp"

namespace simulate {

class RedisHost final : Acceptor {
  public:
    RedisHost(Kernel& kernel, Machine& machine, ServerSettings settings);
    ~RedisHost();
    RedisHost(const RedisHost&) = delete;
    RedisHost& operator=(const RedisHost&) = delete;

    /// What is set after each start, and now.
    void configure(std::function<void(Server&)> configure);

    Address address() const { return address_; }
    Server& server() { return *server_; }
    const Server& server() const { return *server_; }
    bool isUp() const { return isUp_; }
    bool isRunning() const { return isUp_ && !isStopped_; }
    /// So far.
    const Traffic& traffic() const { return traffic_; }
    /// In each second.
    const std::vector<Traffic>& seconds() const { return seconds_; }

    /// Removes the keys that have expired.
    void expire();

    /// The clock of the server is that of its machine now: before something is done to it other than by commands.
    void setClock();

    // ---- faults

    /// SIGSTOP, SIGCONT: commands wait.
    void stop();
    void resume();

    /// kill -9: connections are reset, and what was in memory is lost.
    void crash();
    /// It starts again. With `keepsData` it reads what it had: an AOF that is written always.
    void start(bool keepsData);

    /// It is started next on another machine, which has its clock.
    void moveTo(Host host) { address_.host = host; }

    /// CLIENT KILL of all connections.
    void dropConnections();

    /// Executes nothing for a while: a fork, a slow command of somebody else.
    void beBusy(Time time);

  private:
    class Served;

    void accepted(std::shared_ptr<Stream> stream) override;
    void pend(Served& connection);
    void work();
    void workSoon();
    void forget(const Served& connection);
    void count(const std::vector<std::string_view>& words, std::size_t bytes, Time work, Time longest);
    void got(const Traffic& more);
    void setClock(Time time);

    Kernel& kernel_;
    Machine& machine_;
    ServerSettings settings_;
    Address address_;
    std::int64_t clockUs_ = 0;
    std::function<void(Server&)> configure_;
    std::unique_ptr<Server> server_;
    std::vector<std::unique_ptr<Served>> connections_;
    std::deque<Served*> pending_;  // with commands to be executed
    bool isUp_ = false;
    bool isStopped_ = false;
    bool isPlanned_ = false;
    Time busyUntil_ = 0;
    std::uint64_t life_ = 0;
    Traffic traffic_;
    std::vector<Traffic> seconds_;
};

}  // namespace simulate
