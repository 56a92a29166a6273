// A node: a machine whose workers are copies of nginx, which share a zone. It does what a master process does.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nginx_copy.hpp"
#include "process.hpp"

namespace simulate {

class Node {
  public:
    Node(Kernel& kernel, Machine& machine, NginxCopies& copies, std::string folder, Random random);
    ~Node();
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    static Node& of(const Machine& machine);

    Machine& machine() { return machine_; }
    Address address() const { return {machine_.host, 80}; }

    /// Starts workers of this configuration; older ones quit.
    void configure(const std::string& text, int workers);

    // ---- faults of a worker, which is one of those that live

    std::size_t living() const { return workers_.size(); }
    void kill(std::size_t worker);
    void stop(std::size_t worker);
    void resume(std::size_t worker);

    std::uint64_t failures() const { return failures_; }

    /// The memory of this name; see simulateSharedMemory().
    void* sharedMemory(const std::string& name, std::size_t size, bool& isNew);

  private:
    struct Generation {
        SimulatedConfiguration configuration;
        std::string file;
    };
    struct Memory {
        void* begin = nullptr;
        std::size_t size = 0;
    };
    struct Worker;

    void start(std::shared_ptr<Generation> generation, int number);
    void bury();

    Kernel& kernel_;
    Machine& machine_;
    NginxCopies& copies_;
    std::string folder_;
    Random random_;
    std::shared_ptr<Generation> generation_;
    int generations_ = 0;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<std::unique_ptr<Worker>> dead_;  // timers may refer to them
    std::map<std::string, Memory> memory_;       // by name and size: a reload with another size gets other memory
    std::uint64_t failures_ = 0;
};

}  // namespace simulate
