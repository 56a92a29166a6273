// A node: a machine whose workers are copies of nginx, which share a zone. It does what a master process does.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nginx_copy.hpp"
#include "process.hpp"

namespace simulate {

class Node {
  public:
    /// `betweenSwitches`: so many steps in shared memory, on the average; 0: a worker is never switched out there.
    Node(Kernel& kernel, Machine& machine, NginxCopies& copies, std::string folder, Random random,
         std::uint64_t betweenSwitches);
    ~Node();
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    static Node& of(const Machine& machine);

    Machine& machine() { return machine_; }

    /// Starts workers of this configuration; older ones quit.
    void configure(const std::string& text, int workers);

    // ---- faults of a worker, which is one of those that live

    std::size_t living() const { return workers_.size(); }
    bool hasOlder() const;
    void kill(std::size_t worker);
    /// So many steps in shared memory from now.
    void killAtStep(std::size_t worker, std::uint64_t step);
    void stop(std::size_t worker);
    void resume(std::size_t worker);

    std::uint64_t failures() const { return failures_; }

    /// What its zone has for requests, "" if nothing: a request that waits, or a log of a NAME that may not be left.
    std::string inUse(const std::function<bool(std::string_view)>& mayBeLeft) const;

    /// The largest heap of a worker, in bytes, without what it had when it began to serve.
    std::size_t heap() const;

    /// The zone of the configuration whose worker runs: a reload with the same size keeps that of the one before.
    void* sharedMemory(std::size_t size, bool& isNew);

    /// The steps in shared memory of the process that runs begin.
    void beginSteps();

  private:
    struct Memory {
        void* begin;
        std::size_t size;
    };
    struct Generation {
        SimulatedConfiguration configuration;
        std::string file;
        const Memory* zone = nullptr;        // nullptr: no worker has attached yet
        const Memory* zoneBefore = nullptr;  // of the last configuration that has one
    };
    struct Worker;

    Generation& generationOfCurrent();
    void start(std::shared_ptr<Generation> generation, int number);
    void bury();
    void replace(const Worker& killed);
    void unlock(const Worker& killed);

    Kernel& kernel_;
    Machine& machine_;
    NginxCopies& copies_;
    std::string folder_;
    Random random_;
    std::uint64_t betweenSwitches_;
    std::shared_ptr<Generation> generation_;
    int generations_ = 0;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<std::unique_ptr<Worker>> dead_;  // timers may refer to them
    std::deque<Memory> zones_;
    std::uint64_t failures_ = 0;
};

}  // namespace simulate
