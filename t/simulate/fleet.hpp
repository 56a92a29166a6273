// The simulated world: nodes, their Redis, an upstream, clients, and faults, all drawn from one seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "history.hpp"
#include "http.hpp"
#include "node.hpp"
#include "plan.hpp"
#include "store.hpp"

namespace simulate {

/// What a simulation uses of the real machine.
struct Surroundings {
    NginxCopies& copies;
    std::string nativeModule;
    std::string folder;  // for configuration files
    std::string errorLog = "/dev/null crit";
    bool isTraced = false;
};

struct Figures {
    std::uint64_t requests = 0;
    std::uint64_t faults = 0;
    Time simulated = 0;
    std::uint64_t trace = 0;
    std::string failure;  // empty: none
};

class Fleet final : StoreWitness {
  public:
    Fleet(std::uint64_t seed, const Surroundings& surroundings);
    ~Fleet();
    Fleet(const Fleet&) = delete;
    Fleet& operator=(const Fleet&) = delete;

    /// Runs it to its end: so many requests.
    Figures run(std::uint64_t requests);

  private:
    void note(const std::string& what);
    void noted(const std::string& what) override { note(what); }
    void lost() override { history_.lost(schedule_.now()); }
    void askLater();
    void ask();
    void faultLater();
    void fault();
    void faultOfWorker();
    void faultOfNetwork();
    std::string configuration(bool isOther) const;
    HttpClient& clientOf(std::size_t node);
    std::string settle();

    Surroundings surroundings_;
    Random random_;
    Schedule schedule_;
    Kernel kernel_;
    Plan plan_;
    History history_;
    std::uint64_t trace_ = 0xcbf29ce484222325;
    std::unique_ptr<Store> store_;
    std::unique_ptr<AppServer> app_;
    std::vector<std::unique_ptr<Machine>> machines_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<std::vector<std::unique_ptr<HttpClient>>> clients_;  // by node
    std::uint64_t requests_ = 0;
    std::uint64_t most_ = 0;
    std::uint64_t underWay_ = 0;
    std::uint64_t faults_ = 0;
    std::uint16_t port_ = 1024;
    Time pause_ = 0;       // between requests, on the average
    Time untilFault_ = 0;  // the same between faults
};

}  // namespace simulate
