#include "server.hpp"

#include <algorithm>

#include "commands.hpp"
#include "redis/hash_slots.hpp"
#include "routing.hpp"
#include "state.hpp"

namespace simulate {

namespace {

/// What Redis does for each command besides: reading, finding and answering it.
constexpr std::int64_t kCommandNs = 2'000;

constexpr std::string_view kLoading = "LOADING Redis is loading the dataset in memory";
constexpr std::string_view kBusy =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
constexpr std::string_view kMasterDown =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

std::string unknownCommand(Words words) {
    constexpr std::size_t kMost = 128;
    std::string arguments;
    for (std::size_t i = 1; i < words.size() && arguments.size() < kMost; i++) {
        arguments.append("'").append(words[i].substr(0, kMost - arguments.size())).append("' ");
    }
    return "ERR unknown command '" + std::string(words[0].substr(0, kMost)) +
           "', with args beginning with: " + arguments;
}

/// The command, or nullptr after an error.
const CommandRow* rowOf(Execution& execution, Words words) {
    const CommandRow* row = commandNamed(words[0]);
    const bool isOfModule = row != nullptr && row->name.starts_with("sliding_log.");
    const NativeVersion native = execution.state().native;
    if (row == nullptr || (isOfModule && (native == NativeVersion::None || native == NativeVersion::OtherCommand))) {
        execution.error(unknownCommand(words));
        return nullptr;
    }
    const auto count = static_cast<int>(words.size());
    if (row->arity > 0 ? count != row->arity : count < -row->arity) {
        execution.error("ERR wrong number of arguments for '" + std::string(row->name) + "' command");
        return nullptr;
    }
    return row;
}

/// Evicts until there is memory; false if there is none.
bool makeRoom(Execution& execution) {
    ServerState& state = execution.state();
    if (state.maxmemory == 0 || state.role == Role::Replica) {
        return true;
    }
    while (state.usedMemory() > state.maxmemory) {
        if (!evictOne(execution)) {
            return false;
        }
    }
    return true;
}

/// Why the command is not executed now; empty: it is.
std::string refusalOf(Execution& execution, Client& client, const CommandRow& row, Words words) {
    ServerState& state = execution.state();
    const bool writes = (row.flags & kWrites) != 0;
    if (!state.passwords.empty() && !client.isAuthenticated && (row.flags & kWithoutAuth) == 0) {
        return "NOAUTH Authentication required.";
    }
    if (state.forbidden.contains(row.name)) {
        return "NOPERM this user has no permissions to run the '" + std::string(row.name) + "' command";
    }
    if (state.cluster) {
        if (const Route route = routeOf(execution, row, words); route.kind != Route::Here) {
            return errorOf(route, *state.cluster);
        }
    }
    execution.noteFull(!makeRoom(execution));
    if (execution.wasFull() && (row.flags & kGrows) != 0) {
        return std::string(kOutOfMemory);
    }
    if (writes && state.role == Role::Master && !state.refusalOfWrites().empty()) {
        return std::string(state.refusalOfWrites());
    }
    if (writes && state.role == Role::Replica) {
        return std::string(kReadOnly);
    }
    if (state.isMasterDown && state.role == Role::Replica && (row.flags & kWhileStale) == 0) {
        return std::string(kMasterDown);
    }
    if (state.isLoading && (row.flags & kWhileLoading) == 0) {
        return std::string(kLoading);
    }
    if (state.isBusy && (row.flags & kWhileBusy) == 0) {
        return std::string(kBusy);
    }
    return {};
}

bool isOfTransactions(const CommandRow& row) {
    return row.name == "exec" || row.name == "discard" || row.name == "multi";
}

}  // namespace

std::uint64_t ServerState::usedMemory() const {
    constexpr std::uint64_t kEmpty = 900'000;
    return kEmpty + keys.bytes();
}

std::string_view ServerState::refusalOfWrites() const {
    const bool hasTooFew = goodReplicas < leastReplicas;
    return hasTooFew ? kNoReplicas : writeRefusal;
}

bool evictOne(Execution& execution) {
    ServerState& state = execution.state();
    const std::string* name = nullptr;
    switch (state.policy) {
        case Eviction::None:
            break;
        case Eviction::AllKeysLru:
            name = state.keys.leastUsed(false);
            break;
        case Eviction::VolatileLru:
            name = state.keys.leastUsed(true);
            break;
        case Eviction::VolatileTtl:
            name = state.keys.nextToExpire();
            break;
    }
    if (name == nullptr) {
        return false;
    }
    const std::string copy = *name;
    execution.remove(copy);
    execution.note({"DEL", copy});
    state.evicted++;
    return true;
}

Execution::Execution(ServerState& state, Client* client, std::string& reply)
    : state_(state), client_(client), reply_(&reply), nowUs_(*state.clockUs) {}

Keyspace& Execution::keys() {
    return state_.keys;
}

bool Execution::keepsEffects() const {
    return state_.keepsEffects;
}

bool Execution::isMaster() const {
    return state_.role == Role::Master;
}

void Execution::finish() {
    if (effect_.commands.empty()) {
        return;
    }
    state_.effects.push_back(std::move(effect_));
    state_.offset++;
    effect_ = Effect();
}

Server::Server(const std::int64_t* clockUs, ServerSettings settings)
    : state_(std::make_unique<ServerState>(clockUs, std::move(settings))) {
    std::string reply;
    Execution execution(*state_, nullptr, reply);
    const std::string& path = state_->settings.nativeModule;
    if (!path.empty()) {
        state_->native = NativeVersion::Current;
        state_->module = std::make_unique<NativeModule>(path);
        state_->module->load(execution);
    }
    if (!path.empty() && state_->settings.scripts == Scripts::ByNative) {
        state_->decider = std::make_unique<NativeModule>(path);
        state_->decider->load(execution);
    }
}

Server::~Server() = default;

std::int64_t Server::execute(Client& client, Words words, std::string& reply) {
    ServerState& state = *state_;
    if (client.id == 0) {
        client.id = ++state.clients;
    }
    state.commands++;
    Execution execution(state, &client, reply);
    execution.works(kCommandNs);
    const bool wasAsking = client.isAsking;
    if (const CommandRow* row = rowOf(execution, words)) {
        const std::string refusal = refusalOf(execution, client, *row, words);
        if (!refusal.empty()) {
            client.isTransactionRefused = client.isInTransaction;
            execution.error(refusal);
        } else if (client.isInTransaction && !isOfTransactions(*row)) {
            client.queued.emplace_back(words.begin(), words.end());
            appendStatus(reply, "QUEUED");
        } else {
            execution.run(*row, words);
        }
    } else {
        client.isTransactionRefused = client.isInTransaction;
    }
    client.isAsking = client.isAsking && (!wasAsking || client.isInTransaction);
    execution.finish();
    return (execution.workNs() + 999) / 1000;
}

// ---- faults

void Server::setNative(NativeVersion version) {
    state_->native = state_->module == nullptr ? NativeVersion::None : version;
}

NativeVersion Server::native() const {
    return state_->native;
}

void Server::scriptFlush() {
    state_->scripts.clear();
}

void Server::setRole(Role role) {
    state_->role = role;
}

Role Server::role() const {
    return state_->role;
}

void Server::setMaster(std::string host, int port) {
    state_->masterHost = std::move(host);
    state_->masterPort = port;
}

void Server::setLoading(bool isLoading) {
    state_->isLoading = isLoading;
}

void Server::setBusy(bool isBusy) {
    state_->isBusy = isBusy;
}

void Server::setMasterDown(bool isDown) {
    state_->isMasterDown = isDown;
}

void Server::setWriteRefusal(std::string error) {
    state_->writeRefusal = std::move(error);
}

void Server::setLeastReplicas(std::size_t least) {
    state_->leastReplicas = least;
}

void Server::setGoodReplicas(std::size_t good) {
    state_->goodReplicas = good;
}

void Server::setPasswords(const std::string& user, std::vector<std::string> passwords) {
    if (passwords.empty()) {
        state_->passwords.erase(user);
    } else {
        state_->passwords[user] = std::move(passwords);
    }
}

void Server::forbid(const std::string& command) {
    state_->forbidden.insert(command);
}

void Server::permit(const std::string& command) {
    state_->forbidden.erase(command);
}

void Server::setMemory(std::uint64_t maxmemory, Eviction policy) {
    state_->maxmemory = maxmemory;
    state_->policy = policy;
}

std::uint64_t Server::usedMemory() const {
    return state_->usedMemory();
}

bool Server::evictOne() {
    std::string reply;
    Execution execution(*state_, nullptr, reply);
    const bool isEvicted = simulate::evictOne(execution);
    execution.finish();
    return isEvicted;
}

bool Server::removeKey(std::string_view key) {
    std::string reply;
    Execution execution(*state_, nullptr, reply);
    const bool isThere = execution.find(key) != nullptr;
    if (isThere) {
        execution.remove(key);
        execution.note({"DEL", std::string(key)});
    }
    execution.finish();
    return isThere;
}

void Server::flushAll() {
    std::string reply;
    Execution execution(*state_, nullptr, reply);
    state_->keys.clear();
    execution.note({"FLUSHALL"});
    execution.finish();
}

std::size_t Server::expire(std::size_t most) {
    std::size_t removed = 0;
    if (state_->role == Role::Replica) {
        return 0;
    }
    std::string reply;
    Execution execution(*state_, nullptr, reply);
    for (const std::string* name = nullptr;
         removed < most && (name = state_->keys.expired(execution.nowMs())) != nullptr; removed++) {
        const std::string copy = *name;
        execution.remove(copy);
        execution.note({"DEL", copy});
    }
    execution.finish();
    return removed;
}

// ---- cluster

std::optional<ClusterView>& Server::cluster() {
    return state_->cluster;
}

std::vector<std::string> Server::keysInSlot(std::uint16_t slot, std::size_t most) const {
    std::vector<std::string> found;
    for (const auto& [name, key] : state_->keys.keys()) {
        if (found.size() == most) {
            break;
        }
        if (sliding_log::hashSlotOf(name) == slot) {
            found.push_back(name);
        }
    }
    return found;
}

namespace {

/// Commands that write the key.
std::vector<std::vector<std::string>> commandsFor(const std::string& name, const Keyspace::Key& key) {
    std::vector<std::vector<std::string>> commands = {{"DEL", name}};
    if (const auto* zset = std::get_if<Zset>(&key.value)) {
        commands.push_back({"ZADD", name});
        for (std::size_t i = 0; i < zset->size(); i++) {
            commands.back().push_back(scoreText(zset->at(i).score));
            commands.back().push_back(zset->at(i).member);
        }
    } else if (const auto* hash = std::get_if<Hash>(&key.value)) {
        commands.push_back({"HSET", name});
        for (const auto& [field, value] : hash->fields()) {
            commands.back().push_back(field);
            commands.back().push_back(value);
        }
    } else if (const auto* list = std::get_if<List>(&key.value)) {
        commands.push_back({"RPUSH", name});
        commands.back().insert(commands.back().end(), list->begin(), list->end());
    } else {
        commands.push_back({"SET", name, std::get<std::string>(key.value)});
    }
    if (key.expiry != Keyspace::kNoExpiry) {
        commands.push_back({"PEXPIREAT", name, std::to_string(key.expiry)});
    }
    return commands;
}

}  // namespace

bool Server::migrate(std::string_view name, Server& to) {
    std::string reply;
    Execution here(*state_, nullptr, reply);
    const Keyspace::Key* key = here.find(name);
    if (key == nullptr) {
        here.finish();
        return false;
    }
    Execution there(*to.state_, nullptr, reply);
    const std::string copy(name);
    if (to.state_->keepsEffects) {
        for (std::vector<std::string>& command : commandsFor(copy, *key)) {
            there.note(std::move(command));
        }
    }
    Keyspace& target = to.state_->keys;
    target.remove(copy);
    target.add(copy, key->value);
    if (key->expiry != Keyspace::kNoExpiry) {
        target.setExpiry(copy, key->expiry);
    }
    there.finish();
    here.remove(copy);
    here.note({"DEL", copy});
    here.finish();
    return true;
}

// ---- replication

void Server::keepEffects(bool keeps) {
    state_->keepsEffects = keeps;
}

const std::deque<Effect>& Server::effects() const {
    return state_->effects;
}

std::uint64_t Server::firstOffset() const {
    return state_->offset - state_->effects.size();
}

std::uint64_t Server::offset() const {
    return state_->offset;
}

void Server::forgetEffectsBefore(std::uint64_t offset) {
    while (!state_->effects.empty() && firstOffset() < offset) {
        state_->effects.pop_front();
    }
}

void Server::apply(const Effect& effect) {
    std::string reply;
    Execution execution(*state_, nullptr, reply);
    execution.obeyMaster();
    for (const std::vector<std::string>& command : effect.commands) {
        const std::vector<std::string_view> words(command.begin(), command.end());
        if (const CommandRow* row = commandNamed(words[0])) {
            execution.run(*row, words);
        }
    }
    state_->offset++;
    if (state_->keepsEffects) {
        state_->effects.push_back(effect);
    }
}

void Server::copyFrom(const Server& master) {
    state_->keys.copyFrom(master.state_->keys);
    state_->effects.clear();
    state_->offset = master.state_->offset;
}

// ---- for checks

const Keyspace& Server::keyspace() const {
    return state_->keys;
}

}  // namespace simulate
