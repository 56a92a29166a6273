#include "scale.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>

#include "http.hpp"
#include "node.hpp"
#include "store.hpp"

namespace simulate {

namespace {

constexpr Time kUsual = 3 * kSecond;  // watched before something happens
constexpr Time kAfter = 5 * kSecond;  // and once it is over
constexpr Time kDelay = 150 * kUs;    // of the network
constexpr Time kDeploy = 60 * kSecond;
constexpr std::size_t kKeys = 10'000;
constexpr std::size_t kSlots = 20;  // that move
constexpr std::size_t kConnectionsOfWorker = 4;

struct Setting {
    std::string_view name;
    StorePlan store;
    bool hasPermits = false;
    bool isOfFailOvers = false;  // nothing else is watched
};

/// What was answered, while something is watched.
struct Answers {
    std::uint64_t all = 0;
    std::uint64_t withoutRedis = 0;
    Time lastWithoutRedis = 0;
    std::vector<Time> waits;
};

/// The most in a second, of one server, and the sum over all.
struct Sum {
    std::uint64_t all = 0;
    std::uint64_t most = 0;

    void add(std::uint64_t ofServer) {
        all += ofServer;
        most = std::max(most, ofServer);
    }
};

struct Seen {
    Sum connects;
    Sum bytes;
    Sum scriptLoads;
    Sum mapRequests;
    Sum work;  // ns
};

/// 1.5 for a time of one and a half units. What ended before has taken none.
std::string inTenths(Time time, Time unit) {
    const Time tenths = std::max<Time>(time, 0) * 10 / unit;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

void printRow(const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) {
        std::printf("| %s ", cell.c_str());
    }
    std::puts("|");
    std::fflush(stdout);
}

class Scale final : public StoreWitness {
  public:
    Scale(const FleetSize& size, const Setting& setting, std::uint64_t seed, const Surroundings& surroundings);

    void run();

  private:
    void watchTheRest();
    void noted(const std::string&) override {}
    void disturbed() override {}
    void lost() override {}
    void divided() override {}
    void lostWrite(const std::vector<std::string>&, Time) override { lostWrites_++; }
    void united(Time) override {}
    void clockMoved() override {}
    void hasOtherAddress() override {}
    void failed(const std::string& what) override { throw std::runtime_error(what); }

    std::string configuration() const;
    void sample();
    void askLater();
    void ask();
    Http1Client* clientOf(std::size_t node);
    std::unique_ptr<Http1Client> newClient(std::size_t node);
    /// `happens` returns how long it takes until it is over.
    void watch(const char* what, Time usual, const std::function<Time()>& happens);
    void print(const char* what, std::uint64_t usualBytes, Time begin, Time over) const;
    Time restart(Time away);
    Time loseMaster();
    Time replaceMaster();
    Time flushScripts();
    Time moveSlots();
    Time deploy();

    FleetSize size_;
    Setting setting_;
    Surroundings surroundings_;
    Random random_;
    Schedule schedule_;
    Kernel kernel_;
    std::unique_ptr<Store> store_;
    std::vector<std::unique_ptr<Machine>> machines_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<std::vector<std::unique_ptr<Http1Client>>> clients_;
    std::uint16_t port_ = 1024;
    Host clientHost_ = kClients;
    bool isAsking_ = false;
    std::size_t keys_ = kKeys;
    Time pause_;  // between requests, on the average
    std::vector<Traffic> before_;
    Seen seen_;
    Answers answers_;
    std::uint64_t lostWrites_ = 0;  // while something is watched
};

Scale::Scale(const FleetSize& size, const Setting& setting, std::uint64_t seed, const Surroundings& surroundings)
    : size_(size),
      setting_(setting),
      surroundings_(surroundings),
      random_(seed),
      kernel_(schedule_, random_.branch()),
      clients_(size.nodes),
      pause_(kSecond / static_cast<Time>(size.nodes * size.workers)) {
    kernel_.wake = &wake;
    kernel_.usualLink().delay = kDelay;
    kernel_.usualLink().jitter = kDelay;
    store_ = std::make_unique<Store>(kernel_, random_.branch(), *this, surroundings.nativeModule, setting.store, kKeys,
                                     kBeginning, kFirstStore, "");
    before_.resize(store_->servers().size());
    for (std::size_t i = 0; i < size.nodes; i++) {
        machines_.push_back(std::make_unique<Machine>(kFirstNode + static_cast<Host>(i), kBeginning,
                                                      random_.between(0, 100'000) * kSecond));
        nodes_.push_back(std::make_unique<Node>(kernel_, *machines_.back(), surroundings.copies, surroundings.folder,
                                                random_.branch(), 0));
    }
}

std::string Scale::configuration() const {
    return "user root; daemon off; master_process off; error_log stderr crit; worker_shutdown_timeout 5s;\n"
           "events { use epoll; worker_connections 64; accept_mutex off; multi_accept off; }\n"
           "http { access_log off; sliding_log_zone 512k;\n"
           "sliding_log_redis fleet { " +
           store_->directives() +
           " }\n"
           "add_header X-Source $sliding_log_source always;\n"
           "server { listen 80; location / { sliding_log_limit fleet key=$arg_k limit=1000000 window=10s" +
           (setting_.hasPermits ? " prefetch=100" : "") + "; empty_gif; } } }\n";
}

/// Each second.
void Scale::sample() {
    const std::vector<RedisHost*> servers = store_->servers();
    for (std::size_t i = 0; i < servers.size(); i++) {
        const Traffic now = servers[i]->traffic();
        const Traffic before = std::exchange(before_[i], now);
        seen_.connects.add(now.connects - before.connects);
        seen_.bytes.add(now.bytes - before.bytes);
        seen_.scriptLoads.add(now.scriptLoads - before.scriptLoads);
        seen_.mapRequests.add(now.mapRequests - before.mapRequests);
        seen_.work.add(static_cast<std::uint64_t>(now.work - before.work));
    }
}

/// nullptr: all connections to the node wait for answers.
Http1Client* Scale::clientOf(std::size_t node) {
    constexpr std::size_t kTries = 8;
    auto& clients = clients_[node];
    const std::size_t most = kConnectionsOfWorker * size_.workers;
    for (std::size_t i = 0; clients.size() == most && i < kTries; i++) {
        auto& each = clients[random_.below(most)];
        if (each->isFree()) {
            return each.get();
        }
        if (each->hasEnded()) {
            each = newClient(node);
            return each.get();
        }
    }
    if (clients.size() < most) {
        clients.push_back(newClient(node));
        return clients.back().get();
    }
    return nullptr;
}

std::unique_ptr<Http1Client> Scale::newClient(std::size_t node) {
    if (++port_ == 0) {
        port_ = 1024;
        clientHost_++;
    }
    return std::make_unique<Http1Client>(kernel_, Address{clientHost_, port_},
                                         Address{nodes_[node]->machine().host, kHttp});
}

void Scale::askLater() {
    schedule_.after(drawn(random_, pause_), [this] {
        if (isAsking_) {
            ask();
            askLater();
        }
    });
}

void Scale::ask() {
    Http1Client* client = clientOf(random_.below(nodes_.size()));
    if (client == nullptr) {
        return;
    }
    client->ask("/?k=" + std::to_string(random_.below(keys_)), 0, [this, sent = schedule_.now()](const Answer& answer) {
        answers_.all++;
        answers_.waits.push_back(schedule_.now() - sent);
        if (answer.source != "redis" && answer.source != "prefetch") {
            answers_.withoutRedis++;
            answers_.lastWithoutRedis = schedule_.now();
        }
    });
}

void Scale::watch(const char* what, Time usual, const std::function<Time()>& happens) {
    std::uint64_t usualBytes = 0;
    if (usual > 0) {
        sample();
        seen_ = {};
        schedule_.runUntil(schedule_.now() + usual);
        sample();
        usualBytes = seen_.bytes.all / static_cast<std::uint64_t>(usual / kSecond);
    }
    seen_ = {};
    answers_ = {};
    lostWrites_ = 0;
    const Time begin = schedule_.now();
    const Time over = begin + happens();
    while (schedule_.now() < over + kAfter) {
        schedule_.runUntil(schedule_.now() + kSecond);
        sample();
    }
    print(what, usualBytes, begin, over);
}

void Scale::print(const char* what, std::uint64_t usualBytes, Time begin, Time over) const {
    std::vector<Time> waits = answers_.waits;
    std::ranges::sort(waits);
    const auto since = [&](Time time) {
        return answers_.withoutRedis == 0 ? "" : inTenths(answers_.lastWithoutRedis - time, kSecond);
    };
    const auto longest = [&](std::size_t percent) {
        return waits.empty() ? "" : inTenths(waits[(waits.size() - 1) * percent / 100], kMs);
    };
    printRow({std::string(setting_.name) + ": " + what, std::to_string(seen_.connects.all),
              std::to_string(seen_.connects.most), std::to_string(usualBytes / 1000),
              std::to_string(seen_.bytes.most / 1000), std::to_string(seen_.scriptLoads.all),
              std::to_string(seen_.scriptLoads.most), std::to_string(seen_.mapRequests.all),
              std::to_string(seen_.mapRequests.most), std::to_string(seen_.work.most * 100 / kSecond),
              std::to_string(answers_.all), std::to_string(answers_.withoutRedis), since(begin), since(over),
              longest(99), longest(100), std::to_string(lostWrites_)});
}

Time Scale::restart(Time away) {
    RedisHost& redis = *store_->servers().front();
    redis.crash();
    schedule_.after(away, [&redis] { redis.start(false); });
    return away;
}

/// A replica takes its place after a second, and some tenths.
Time Scale::loseMaster() {
    store_->cluster() != nullptr ? store_->cluster()->masterDies(random_.branch()) : store_->failOver()->masterDies();
    return 2 * kSecond;
}

/// By command, while it lives.
Time Scale::replaceMaster() {
    store_->cluster() != nullptr ? store_->cluster()->replaceMaster(random_.branch())
                                 : store_->failOver()->replaceMaster();
    return kSecond;
}

Time Scale::flushScripts() {
    for (RedisHost* server : store_->servers()) {
        server->server().scriptFlush();
    }
    return 0;
}

/// One after the other, a tenth of a second each.
Time Scale::moveSlots() {
    constexpr Time kOne = 100 * kMs;
    for (std::size_t i = 0; i < kSlots; i++) {
        schedule_.after(static_cast<Time>(i) * kOne,
                        [this, i] { store_->cluster()->moveSlotOf(std::to_string(i), random_.branch()); });
    }
    return kSlots * kOne;
}

Time Scale::deploy() {
    for (std::size_t i = 0; i < nodes_.size(); i++) {
        schedule_.after(kDeploy * static_cast<Time>(i) / static_cast<Time>(nodes_.size()),
                        [this, i] { nodes_[i]->configure(configuration(), static_cast<int>(size_.workers)); });
    }
    return kDeploy;
}

void Scale::run() {
    schedule_.after(kSecond, [this] {
        isAsking_ = true;
        askLater();
    });
    watch("the nodes start, and are asked", 0, [this] {
        for (const auto& node : nodes_) {
            node->configure(configuration(), static_cast<int>(size_.workers));
        }
        return kSecond;
    });
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto workers = static_cast<long>(size_.nodes * size_.workers);
    for (const auto& node : nodes_) {
        if (node->failures() > 0) {
            throw std::runtime_error("workers failed to start");
        }
    }
    if (setting_.store.replicas == 0) {
        watch("the server restarts at once", kUsual, [this] { return restart(20 * kMs); });
        watch("the server is away for 2 s", kUsual, [this] { return restart(2 * kSecond); });
    } else {
        watch("a master is lost", kUsual, [this] { return loseMaster(); });
        watch("a master is replaced", kUsual, [this] { return replaceMaster(); });
    }
    if (!setting_.isOfFailOvers) {
        watchTheRest();
    }
    std::printf("  %ld KB of memory a worker, with what the simulation has of it\n", usage.ru_maxrss / workers);
}

void Scale::watchTheRest() {
    watch("the scripts are forgotten", kUsual, [this] { return flushScripts(); });
    if (store_->cluster() != nullptr) {
        watch("20 slots move", kUsual, [this] { return moveSlots(); });
    }
    watch("all nodes are reloaded within a minute", kUsual, [this] { return deploy(); });
    watch("one tenant has a million requests in a second", 0, [this] {
        keys_ = 1;
        pause_ = kUs;
        schedule_.after(kSecond, [this] { isAsking_ = false; });
        return kSecond;
    });
}

}  // namespace

void simulateScale(const FleetSize& size, std::uint64_t seed, const Surroundings& surroundings) {
    const std::array<Setting, 7> settings = {
        {{"one server", {}, false},
         {"one server, prefetch=100", {}, true},
         {"Sentinels", {.replicas = 1}, false},
         {"Sentinels, two replicas", {.replicas = 2}, false, true},
         {"Sentinels, two replicas, min-replicas-to-write 1", {.replicas = 2, .needsReplica = true}, false, true},
         {"a Cluster of 3", {.servers = 3, .replicas = 1}, false},
         {"a Cluster of 30", {.servers = 30, .replicas = 1}, false}}};
    printRow({"what happens", "connects: all", "most per s", "KB received: usual s", "busiest s", "SCRIPT LOAD: all",
              "most per s", "CLUSTER SLOTS: all", "most per s", "Redis works: % of the busiest s", "requests: all",
              "without Redis", "last of them, s: after the event", "after it is over", "waits, ms: 99 %", "longest",
              "writes lost"});
    for (const Setting& setting : settings) {
        const pid_t process = fork();  // all of its memory ends with it
        if (process == 0) {
            try {
                Scale(size, setting, seed, surroundings).run();
            } catch (const std::exception& error) {
                std::fprintf(stderr, "%s\n", error.what());
                _exit(1);
            }
            std::fflush(stdout);
            _exit(0);
        }
        int status = 0;
        if (process < 0 || waitpid(process, &status, 0) != process || status != 0) {
            throw std::runtime_error("the simulation of a fleet failed");
        }
    }
}

}  // namespace simulate
