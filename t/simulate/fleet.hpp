// The simulated world: nodes, their Redis, an upstream, clients, and faults, all drawn from one seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "burden.hpp"
#include "history.hpp"
#include "http.hpp"
#include "http2.hpp"
#include "name_server.hpp"
#include "node.hpp"
#include "plan.hpp"
#include "store.hpp"
#include "world.hpp"

namespace simulate {

constexpr Host kFirstNode = 0x0a000001;
constexpr Host kFirstStore = 0x0a010001;
constexpr Host kClients = 0x0a030001;

/// What a simulation uses of the real machine.
struct Surroundings {
    NginxCopies& copies;
    std::string nativeModule;
    std::string folder;  // for configuration files
    std::string errorLog = "/dev/null crit";
    bool isTraced = false;
    bool hasSteps = false;  // nginx tells of its accesses to shared memory
};

class Fleet final : AppServer::Witness {
  public:
    Fleet(const World& world, const Surroundings& surroundings);
    ~Fleet();
    Fleet(const Fleet&) = delete;
    Fleet& operator=(const Fleet&) = delete;

    /// Runs it to its end.
    Figures run();

  private:
    /// Tells the history what happens to one store.
    struct Witness final : StoreWitness {
        Witness(Fleet& fleet, std::size_t store) : fleet(fleet), store(store) {}
        void noted(const std::string& what) override { fleet.note(what); }
        void disturbed() override { fleet.history_.disturbed(fleet.schedule_.now()); }
        void lost() override { fleet.history_.lost(store, fleet.schedule_.now()); }
        void divided() override { fleet.history_.divided(store, fleet.schedule_.now()); }
        void lostWrite(const std::vector<std::string>& command, Time since) override {
            fleet.history_.lostWrite(store, command, {since, fleet.schedule_.now()});
        }
        void united(Time since) override { fleet.history_.united(store, {since, fleet.schedule_.now()}); }
        void clockMoved() override { fleet.history_.clockMoved(store, fleet.schedule_.now()); }
        void hasOtherAddress() override { fleet.history_.hasOtherAddress(store, fleet.schedule_.now()); }
        void failed(const std::string& what) override {
            fleet.failure_ = fleet.failure_.empty() ? what : fleet.failure_;
        }

        Fleet& fleet;
        std::size_t store;
    };

    void note(const std::string& what);
    void began(std::uint64_t number) override { underUpstream_[number].begin = schedule_.now(); }
    void ended(std::uint64_t number) override;
    void askLater();
    void ask();
    void add(Event event, std::uint64_t number);
    void recordLater();
    void setRecord(Random random);
    void recordNameLater();
    void setRecordOfName(Random random);
    bool writeRecord(const Limit& limit, const std::string& key, std::string_view what, Time lifetime);
    void faultLater();
    void fault();
    void faultOfWorker(Random& random);
    void moveClock(Random& random);
    void reload(std::size_t node, bool isOther);
    void replaceServer(Random& random);
    void watchReplaced(std::size_t store);
    void killWorker(Node& node, std::size_t worker, Random& random);
    void faultOfNetwork(Random& random);
    std::string configuration(bool isOther) const;
    void separateRegions();
    HttpClient& clientOf(std::size_t node, Random random);
    std::string settle();
    std::size_t servers() const;
    std::uint64_t callsOfLogs() const;
    std::uint64_t livingWorkers() const;

    World world_;
    Surroundings surroundings_;
    Random random_;
    Schedule schedule_;
    Kernel kernel_;
    Plan plan_;
    History history_;
    Burden burden_;
    std::string failure_;  // of a store
    std::uint64_t trace_ = 0xcbf29ce484222325;
    std::vector<std::unique_ptr<Witness>> witnesses_;
    std::vector<std::unique_ptr<Store>> stores_;
    std::unique_ptr<AppServer> app_;
    NameServer names_;
    std::vector<std::unique_ptr<Machine>> machines_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<bool> isOther_;  // by node: it has the configuration of some reloads
    std::vector<std::vector<std::unique_ptr<HttpClient>>> clients_;  // by node
    std::map<std::uint64_t, Interval> underUpstream_;                // by the number of the request
    std::uint64_t requests_ = 0;
    std::uint64_t underWay_ = 0;
    std::uint64_t faults_ = 0;
    std::uint16_t port_ = 1024;
    bool isReplacing_ = false;  // a server
    Time pause_ = 0;            // between requests, on the average
    Time untilFault_ = 0;       // the same between faults
};

}  // namespace simulate
