#include "fleet.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

namespace simulate {

namespace {

constexpr Host kUpstream = 0x0a020001;
constexpr Host kHostsOfStore = 0x1000;
constexpr Time kStart = kSecond;               // until nginx serves
constexpr Time kBetweenRecords = 2 * kSecond;  // of whole NAMEs, on the average

/// Most answers come at once, and some after the leases of requests under way. `longer`: see Plan::longerAnswers().
Time timeOfUpstream(Random& random, std::int64_t longer) {
    const std::int64_t most = random.once(10) ? longer * (random.once(8) ? kLongestAnswer / kMs : 3000) : 20;
    return random.between(0, most) * kMs;
}

/// The NAME of the limit that has this key.
std::string_view nameIn(std::string_view key) {
    return key.substr(kPrefix.size(), key.find(':', kPrefix.size()) - kPrefix.size());
}

}  // namespace

Fleet::Fleet(const World& world, const Surroundings& surroundings)
    : world_(world),
      surroundings_(surroundings),
      random_(world.seed),
      kernel_(schedule_, random_.branch()),
      plan_(drawPlan(random_.branch(), world.kind)),
      history_(plan_),
      burden_(plan_.timeout, plan_.nodes * plan_.workers, plan_.scripts()),
      names_(kernel_, kNameServer) {
    kernel_.wake = &wake;
    kernel_.usualLink().delay = plan_.delayOfNear;
    kernel_.usualLink().jitter = random_.once(2) ? plan_.delayOfNear : 0;
    kernel_.usualLink().splits = random_.once(8);
    for (std::size_t i = 0; i < plan_.stores.size(); i++) {
        witnesses_.push_back(std::make_unique<Witness>(*this, i));
        stores_.push_back(std::make_unique<Store>(kernel_, random_.branch(), *witnesses_.back(),
                                                  surroundings.nativeModule, plan_.stores[i], plan_.keys, kBeginning,
                                                  kFirstStore + static_cast<Host>(i) * kHostsOfStore,
                                                  surroundings.folder + "password" + std::to_string(i)));
    }
    AppServer::Witness& witnessOfApp = *this;
    app_ = std::make_unique<AppServer>(kernel_, Address{kUpstream, 80}, witnessOfApp);
    const std::string text = configuration(false);
    if (surroundings.isTraced) {
        std::fputs(text.c_str(), stdout);
    }
    constexpr std::array<std::uint64_t, 4> kBetweenSwitches = {3, 20, 100, 1000};
    const std::uint64_t betweenSwitches = kBetweenSwitches[random_.below(kBetweenSwitches.size())];
    for (std::size_t i = 0; i < plan_.nodes; i++) {
        const Time bootedBefore = random_.between(0, 100'000) * kSecond;
        const Time wallAhead = kBeginning + random_.between(-5'000, 5'000) * kMs;
        machines_.push_back(std::make_unique<Machine>(kFirstNode + static_cast<Host>(i), wallAhead, bootedBefore));
        nodes_.push_back(std::make_unique<Node>(kernel_, *machines_.back(), surroundings.copies, surroundings.folder,
                                                random_.branch(), surroundings.hasSteps ? betweenSwitches : 0));
        nodes_.back()->configure(text, static_cast<int>(plan_.workers));
    }
    separateRegions();
    clients_.resize(plan_.nodes);
    isOther_.resize(plan_.nodes);
    pause_ = plan_.slowness * random_.between(1, 20) * 250 * kUs;
    untilFault_ = random_.once(8) ? 0 : std::max(pause_ * random_.between(10, 300), 10 * kMs);
}

void Fleet::separateRegions() {
    for (std::size_t node = 0; node < nodes_.size(); node++) {
        for (std::size_t store = 0; store < stores_.size(); store++) {
            if (plan_.areNear(node, store)) {
                continue;
            }
            for (const Host host : stores_[store]->hosts()) {
                kernel_.link(machines_[node]->host, host).delay = plan_.delay;
                kernel_.link(host, machines_[node]->host).delay = plan_.delay;
            }
        }
    }
}

Fleet::~Fleet() {
    clients_.clear();
    nodes_.clear();
}

std::string Fleet::configuration(bool isOther) const {
    std::vector<std::string> servers;
    for (const auto& store : stores_) {
        servers.push_back(store->directives());
    }
    return plan_.configuration(servers, {kUpstream, 80}, surroundings_.errorLog, isOther);
}

void Fleet::note(const std::string& what) {
    for (const char each : what) {
        trace_ = (trace_ ^ static_cast<unsigned char>(each)) * 0x100000001b3;
    }
    if (surroundings_.isTraced) {
        std::printf("%12.6f %s\n", static_cast<double>(schedule_.now()) / kSecond, what.c_str());
    }
}

Figures Fleet::run() {
    schedule_.at(kStart, [this] {
        ask();
        recordLater();
        recordNameLater();
        faultLater();
    });
    while (requests_ < world_.requests && schedule_.step(schedule_.now() + 1000 * kSecond)) {
    }
    Figures figures;
    figures.failure = settle();
    if (figures.failure.empty()) {
        figures.failure = history_.check();
    }
    figures.requests = requests_;
    figures.faults = faults_;
    figures.simulated = schedule_.now();
    figures.trace = trace_;
    return figures;
}

void Fleet::askLater() {
    if (requests_ < world_.requests) {
        // after a while without requests, much of a log has left at once
        const bool isIdle = plan_.ofCost > 1 && random_.once(300);
        const Time idle = isIdle ? random_.between(0, 8000) * kMs : 0;
        schedule_.after(idle + drawn(random_, pause_), [this] { ask(); });
    }
}

HttpClient& Fleet::clientOf(std::size_t node, Random random) {
    auto& clients = clients_[node];
    std::erase_if(clients, [](const auto& each) { return each->hasEnded(); });
    for (const auto& each : clients) {
        if (each->isFree()) {
            return *each;
        }
    }
    port_ = port_ < 65'000 ? port_ + 1 : 1024;
    const Address self{kClients, port_};
    const Host host = machines_[node]->host;
    if (random.once(4)) {
        clients.push_back(std::make_unique<Http2Client>(kernel_, self, Address{host, kHttp2}, 1 + random.below(10)));
    } else {
        clients.push_back(std::make_unique<Http1Client>(kernel_, self, Address{host, kHttp}));
    }
    return *clients.back();
}

void Fleet::ask() {
    Random random = random_.branch();
    requests_++;
    askLater();
    if (world_.withoutRequests.contains(requests_)) {
        return;
    }
    Event event;
    event.node = random.below(nodes_.size());
    event.location = random.below(plan_.locations.size());
    event.key = std::min(random.below(plan_.keys), random.below(plan_.keys));
    event.cost = plan_.ofCost * (random.once(4) ? random.between(0, kMostCost) : 1);
    event.trueCost = random.once(2) ? plan_.ofCost * random.between(0, kMostCost) : event.cost;
    const bool fails = random.once(10);
    event.upstreamStatus = fails ? random.once(2) ? 503 : 0 : 200;
    const Location& location = plan_.locations[event.location];
    if (!location.isProxied) {
        event.upstreamStatus = 200;
    }
    event.sent = schedule_.now();
    burden_.asked(event.sent, location.limits.size(), livingWorkers());
    event.upstreamTime = timeOfUpstream(random, plan_.longerAnswers());
    const std::string path = location.path + "?k=" + std::to_string(event.key) + "&c=" + std::to_string(event.cost) +
                             "&s=" + std::to_string(event.upstreamStatus) +
                             "&d=" + std::to_string(event.upstreamTime / kMs) + "&x=" + std::to_string(event.trueCost) +
                             "&n=" + std::to_string(requests_);
    HttpClient& client = clientOf(event.node, random.branch());
    note(std::to_string(requests_) + " asks node " + std::to_string(event.node) + " " + path);
    underWay_++;
    const std::uint64_t number = requests_;
    const auto pending = std::make_shared<bool>(true);
    client.ask(path, number, [this, event, number, pending](const Answer& answer) mutable {
        *pending = false;
        underWay_--;
        event.answered = schedule_.now();
        event.source = answer.source;
        event.sources = answer.sources;
        event.denier = answer.name;
        event.retryAfter = answer.retryAfter;
        event.status = answer.status;
        event.end = answer.status == 0         ? Event::End::Unknown
                    : answer.status == 429     ? Event::End::Denied
                    : isOfRedis(answer.source) ? Event::End::Admitted
                                               : Event::End::Otherwise;
        note(std::to_string(number) + " " + std::to_string(answer.status) + " " + answer.source + " " + answer.name);
        add(std::move(event), number);
    });
    if (random.once(30)) {  // the client leaves
        schedule_.after(drawn(random, random.once(2) ? kMs : 20 * kMs),
                        [this, &client, event, number, pending]() mutable {
                            if (*pending) {
                                *pending = false;
                                underWay_--;
                                client.leave(number);
                                event.answered = schedule_.now();
                                event.hasLeft = true;
                                note(std::to_string(number) + " left");
                                add(std::move(event), number);
                            }
                        });
    }
}

void Fleet::add(Event event, std::uint64_t number) {
    if (const auto found = underUpstream_.find(number); found != underUpstream_.end()) {
        event.underUpstream = found->second;
    }
    burden_.ended(event.answered, plan_.locations[event.location].limits.size());
    history_.add(std::move(event));
}

void Fleet::ended(std::uint64_t number) {
    Time& end = underUpstream_[number].end;
    end = end == 0 ? schedule_.now() : end;
}

void Fleet::recordLater() {
    if (requests_ < world_.requests && std::ranges::any_of(plan_.limits, &Limit::hasOverride)) {
        schedule_.after(drawn(random_, 100 * pause_), [this] {
            setRecord(random_.branch());
            recordLater();
        });
    }
}

void Fleet::setRecord(Random random) {
    const Limit& limit = plan_.limits[random.below(plan_.limits.size())];
    if (limit.hasOverride) {
        constexpr std::array<std::string_view, 3> kWhat = {"allow", "deny", "limit=7"};
        const Time lifetime = plan_.slowness * random.between(1, 4) * 500 * kMs;
        const std::string key = std::to_string(Limit::kKeyOfRecords);
        note("record of " + limit.name);
        writeRecord(limit, ":{" + key + "}", kWhat[random.below(kWhat.size())], lifetime);
    }
}

void Fleet::recordNameLater() {
    if (requests_ < world_.requests && std::ranges::any_of(plan_.limits, &Limit::obeysName)) {
        schedule_.after(drawn(random_, plan_.slowness * kBetweenRecords), [this] {
            setRecordOfName(random_.branch());
            recordNameLater();
        });
    }
}

void Fleet::setRecordOfName(Random random) {
    const std::size_t number = random.below(plan_.limits.size());
    const Limit& limit = plan_.limits[number];
    if (!limit.obeysName || limit.homes > 1) {
        return;
    }
    constexpr std::array<std::string_view, 4> kWhat = {"limit=7", "allow", "deny", "dry-run"};  // by NameRecord::What
    static_assert(Limit::kLimitOfRecords == 7);
    const std::size_t what = random.below(kWhat.size());
    const Time lifetime = plan_.slowness * random.between(2, 20) * kLongestRecord / 20;
    if (writeRecord(limit, "", kWhat[what], lifetime)) {
        note("record of all keys of " + limit.name + ": " + std::string(kWhat[what]));
        history_.recorded(number, {static_cast<NameRecord::What>(what), schedule_.now(), schedule_.now() + lifetime});
    }
}

/// As the tool does it, by the clock of the store; the record ends by itself. `key`: behind the NAME.
bool Fleet::writeRecord(const Limit& limit, const std::string& key, std::string_view what, Time lifetime) {
    Store& store = *stores_[limit.storeOf(Limit::kKeyOfRecords)];
    const Time now = store.wallClock();
    return store.set(std::string(kPrefix) + limit.name + key + ":override",
                     std::string(what) + " until=" + std::to_string((now + lifetime) / kMs) +
                         " since=" + std::to_string(now / kMs) + " by=simulation why=",
                     lifetime);
}

void Fleet::faultLater() {
    if (untilFault_ > 0 && requests_ < world_.requests) {
        schedule_.after(drawn(random_, untilFault_), [this] {
            if (requests_ < world_.requests) {
                fault();
                faultLater();
            }
        });
    }
}

void Fleet::fault() {
    Random random = random_.branch();
    faults_++;
    if (world_.withoutFaults.contains(faults_)) {
        return;
    }
    switch (random.below(3)) {
        case 0:
            burden_.fault(schedule_.now());
            faultOfWorker(random);
            break;
        case 1:
            burden_.fault(schedule_.now());
            stores_[random.below(stores_.size())]->fault(random.branch());
            break;
        default:
            faultOfNetwork(random);
            break;
    }
}

void Fleet::faultOfWorker(Random& random) {
    const std::size_t number = random.below(nodes_.size());
    Node& node = *nodes_[number];
    if (node.living() == 0) {
        return;
    }
    const std::size_t worker = random.below(node.living());
    switch (random.below(4)) {
        case 0:
            history_.disturbedWorker(number, schedule_.now());
            killWorker(node, worker, random);
            break;
        case 1:
            history_.disturbedWorker(number, schedule_.now());
            note("worker stopped");
            node.stop(worker);
            schedule_.after(lasting(random, 300 * kMs), [&node, this] {
                for (std::size_t i = 0; i < node.living(); i++) {
                    node.resume(i);
                }
                note("worker resumed");
            });
            break;
        case 2:
            moveClock(random);
            break;
        default:
            reload(number, random.once(2));
            if (!isReplacing_ && std::ranges::any_of(plan_.stores, &StorePlan::isReplaced) && random.once(2)) {
                replaceServer(random);
            }
            break;
    }
}

void Fleet::reload(std::size_t node, bool isOther) {
    note("node reloaded");
    if (plan_.hasOtherZone && isOther != isOther_[node]) {
        history_.hasNewZone(node, schedule_.now());
    }
    isOther_[node] = isOther;
    nodes_[node]->configure(configuration(isOther), static_cast<int>(plan_.workers));
}

/// One node after the other gets another server of a store.
void Fleet::replaceServer(Random& random) {
    std::size_t store = random.below(stores_.size());
    store = plan_.stores[store].isReplaced ? store : 1 - store;
    note("another server of store " + std::to_string(store));
    isReplacing_ = true;
    stores_[store]->useOtherServer();
    history_.replaces(store, schedule_.now());
    Time last = 0;
    for (std::size_t node = 0; node < nodes_.size(); node++) {
        const Time then = drawn(random, kSecond);
        schedule_.after(then, [this, node, isOther = random.branch().once(2)]() { reload(node, isOther); });
        last = std::max(last, then);
    }
    schedule_.after(last, [this, store] { watchReplaced(store); });
}

void Fleet::watchReplaced(std::size_t store) {
    if (std::ranges::none_of(nodes_, [](const auto& node) { return node->hasOlder(); })) {
        note("no worker has the former server");
        history_.hasReplaced(store, schedule_.now());
        isReplacing_ = false;
    } else {
        schedule_.after(100 * kMs, [this, store] { watchReplaced(store); });
    }
}

/// No decision depends on the clock of a node, but nginx's resolver uses what it knows by it.
void Fleet::moveClock(Random& random) {
    const std::size_t node = random.below(machines_.size());
    Machine& machine = *machines_[node];
    const Time step = random.between(-3600, 3600) * kSecond;
    history_.nodeClockMoved(node, schedule_.now(), step);
    note("clock of node " + textOf(machine.host) + " set by " + std::to_string(step / kSecond) + " s");
    machine.wallAhead += step;
}

void Fleet::killWorker(Node& node, std::size_t worker, Random& random) {
    if (surroundings_.hasSteps && !random.once(4)) {
        note("worker killed at a step");
        node.killAtStep(worker, std::uint64_t{1} << random.below(12));
    } else {
        note("worker killed");
        node.kill(worker);
    }
}

void Fleet::faultOfNetwork(Random& random) {
    history_.disturbed(schedule_.now());
    const Host node = machines_[random.below(machines_.size())]->host;
    const Host redis = stores_[random.below(stores_.size())]->host(random);
    if (random.once(2)) {
        note("network cut");
        kernel_.link(redis, node).isCut = true;
        if (random.once(2)) {
            kernel_.link(node, redis).isCut = true;
        }
        schedule_.after(lasting(random, 300 * kMs), [this, node, redis] {
            note("network mended");
            kernel_.mend(node, redis);
        });
    } else {
        note("network slow");
        const Time delay = random.between(1, 100) * kMs;
        kernel_.link(redis, node).delay += delay;
        schedule_.after(lasting(random, 500 * kMs), [this, node, redis, delay] {
            note("network fast");
            kernel_.link(redis, node).delay -= delay;
        });
    }
}

/// The load and the faults end; after a while nothing must be left that nobody uses.
std::string Fleet::settle() {
    constexpr Time kSilent = 10 * kSecond;
    constexpr std::size_t kHeapOfWorker = 24'000;  // vectors keep their capacity
    constexpr std::size_t kHeapOfServer = 6'000;   // that it has a connection to
    const Time quiet = plan_.quiet();
    schedule_.runUntil(schedule_.now() + quiet);
    const std::uint64_t calls = callsOfLogs();
    if (underWay_ == 0) {
        clients_.clear();  // nginx frees what it has for connections
    }
    schedule_.runUntil(schedule_.now() + kSilent);
    if (!failure_.empty()) {
        return failure_;
    }
    if (underWay_ > 0) {
        return std::to_string(underWay_) + " requests have no answer";
    }
    std::uint64_t failures = 0;
    for (const auto& node : nodes_) {
        failures += node->failures();
    }
    if (failures > 0) {
        return "workers failed to start";
    }
    if (callsOfLogs() > calls) {  // something is owed, renewed or waited for without a request
        return std::to_string(callsOfLogs() - calls) + " calls of logs without a request";
    }
    const auto mayBeLeft = [&](std::string_view name) {
        return std::ranges::any_of(plan_.limits,
                                   [&](const Limit& limit) { return limit.mayOutlast(quiet) && limit.name == name; });
    };
    for (const auto& node : nodes_) {
        if (const std::string left = node->inUse(mayBeLeft); !left.empty()) {
            return "left in the zone of a node: " + left;
        }
        if (node->heap() > kHeapOfWorker + servers() * kHeapOfServer) {
            return "a worker has " + std::to_string(node->heap()) + " bytes more than at its beginning";
        }
    }
    for (const auto& store : stores_) {
        if (std::string tooMuch = burden_.check(store->servers(), plan_.longestCall()); !tooMuch.empty()) {
            return tooMuch;
        }
        for (const std::string& key : store->keys()) {
            if (!mayBeLeft(nameIn(key))) {
                return "a key is left, " + key;
            }
        }
    }
    return {};
}

std::uint64_t Fleet::livingWorkers() const {
    std::uint64_t sum = 0;
    for (const auto& node : nodes_) {
        sum += node->living();
    }
    return sum;
}

std::size_t Fleet::servers() const {
    std::size_t sum = 0;
    for (const auto& store : stores_) {
        sum += store->servers().size();
    }
    return sum;
}

std::uint64_t Fleet::callsOfLogs() const {
    std::uint64_t sum = 0;
    for (const auto& store : stores_) {
        for (const RedisHost* server : store->servers()) {
            sum += server->traffic().ofLogs;
        }
    }
    return sum;
}

}  // namespace simulate
