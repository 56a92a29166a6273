// size: estimates how much memory of Redis the logs will take, measured there with the module's own scripts.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "command.hpp"
#include "forms.hpp"
#include "interrupt.hpp"
#include "json.hpp"
#include "limit/unique_id.hpp"
#include "progress.hpp"
#include "random.hpp"
#include "script_call.hpp"
#include "table.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::array kSizeOptions = {
    Option{"--keys", "N", "keys with requests in a window; 10000"},
    Option{"--entries", "N", "requests of one key in a window; 1000"},
    Option{"--window", "TIME", "the window; 1m"},
    Option{"--id-length", "N", "bytes of an entry's id (32: id=$request_id); those of the module's own ids"},
};

constexpr std::int64_t kMostEntries = 1'000'000;
constexpr std::int64_t kRoom = 10;  // the limit, in multiples of the entries: enough for `sampled` if it logs all
constexpr std::int64_t kLifeMs = 600'000;      // of written keys, in case they are not removed
constexpr std::size_t kCallsAtOnce = 100;      // Redis takes a millisecond for them
constexpr std::int64_t kBytesOfAnEntry = 150;  // no algorithm takes more, without the id

/// A key that is removed however the tool ends.
class Filled {
  public:
    Filled(Store& store, std::string key) : store_(store), key_(std::move(key)) {}
    ~Filled() {
        try {
            store_.ask(key_, {"UNLINK", key_});
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "sliding-log: %s was not removed and expires within %s: %s\n", printable(key_).c_str(),
                         duration(kLifeMs).c_str(), failure.what());
        }
    }
    Filled(const Filled&) = delete;
    Filled& operator=(const Filled&) = delete;

    const std::string& key() const { return key_; }

  private:
    Store& store_;
    std::string key_;
};

struct Plan {
    std::int64_t keys;
    std::int64_t entries;
    std::int64_t windowMs;
    std::size_t idLength;  // 0: the module's own ids
};

/// The sum of all masters.
struct Memory {
    std::int64_t used = 0;
    std::int64_t most = 0;  // 0: a server has no maxmemory
    std::int64_t masters = 1;
};

struct Measured {
    const Form* form;
    std::int64_t bytes;
};

Memory memoryOf(Store& store) {
    Memory sum;
    sum.masters = static_cast<std::int64_t>(store.masters().size());
    bool bounded = true;
    for (const Endpoint& master : store.masters()) {
        const Reply info = store.at(master).ask({"INFO", "memory"});
        checked(info, "INFO");
        sum.used += infoNumber(info.text(), "used_memory");
        const std::int64_t most = infoNumber(info.text(), "maxmemory");
        bounded = bounded && most > 0;
        sum.most += most;
    }
    sum.most = bounded ? sum.most : 0;
    return sum;
}

/// Requests at random times of one window that ends now, in order; the same times for each algorithm.
std::vector<std::int64_t> arrivals(const Plan& plan, std::int64_t nowMs) {
    std::mt19937_64 random(plan.entries);
    std::uniform_int_distribution<std::int64_t> within(0, plan.windowMs - 1);
    std::vector<std::int64_t> times;
    for (std::int64_t i = 0; i < plan.entries; i++) {
        times.push_back(nowMs - within(random));
    }
    std::ranges::sort(times);
    return times;
}

class Filler {
  public:
    Filler(Store& store, const Form& form, const std::string& key, const Plan& plan, Progress& progress)
        : store_(store), form_(form), key_(key), plan_(plan), progress_(progress), ids_(randomBits()) {}

    /// `done`: of the whole work, for the progress bar.
    void fill(std::span<const std::int64_t> times, std::int64_t& done) {
        constexpr std::ptrdiff_t most = 100;  // requests of one call
        for (auto at = times.begin(); at != times.end();) {
            const auto same = std::find_if(at, times.end(), [&](std::int64_t time) { return time != *at; });
            const auto end = std::min(same, at + std::min(most, times.end() - at));
            calls_.push_back(
                {{*at, plan_.entries * kRoom, plan_.windowMs, kLifeMs}, static_cast<std::size_t>(end - at)});
            done += end - at;
            at = end;
            if (calls_.size() == kCallsAtOnce || at == times.end()) {
                send();
                progress_.at(done);
                endIfInterrupted();
            }
        }
    }

  private:
    /// One call.
    struct Call {
        CheckSettings settings;
        std::size_t requests;
    };

    Command command(const Call& call) {
        std::vector<std::string> names;
        for (std::size_t i = 0; i < call.requests; i++) {
            names.emplace_back(ids_.next().view());
            if (plan_.idLength > 0) {
                names.back().insert(0, plan_.idLength - std::min(plan_.idLength, names.back().size()), '0');
            }
        }
        return scriptCall(form_.algorithm, key_, call.settings, names);
    }

    void send() {
        std::vector<Command> commands;
        for (const Call& call : calls_) {
            commands.push_back(command(call));
        }
        const std::vector<Reply> replies = store_.ask(key_, commands);
        for (std::size_t i = 0; i < calls_.size(); i++) {
            const auto& [settings, requests] = calls_[i];
            if (admittedIn(replies[i], form_.algorithm, settings, requests) != static_cast<std::int64_t>(requests)) {
                throw CouldNotAsk("the script of algorithm=" + std::string(form_.name()) +
                                  " denied a request that had room");
            }
        }
        calls_.clear();
    }

    Store& store_;
    const Form& form_;
    const std::string& key_;
    const Plan& plan_;
    Progress& progress_;
    UniqueIds ids_;
    std::vector<Call> calls_;
};

std::vector<Measured> measure(Store& store, const std::string& prefix, const Plan& plan) {
    std::vector<Measured> measured;
    const auto total = plan.entries * static_cast<std::int64_t>(forms().size());
    Progress progress("filling one key per algorithm", total);
    std::int64_t done = 0;
    for (const Form& form : forms()) {
        for (const Endpoint& master : store.masters()) {
            loadScript(store.at(master), form.algorithm);
        }
        const Filled filled(store, ownKey(prefix));
        const Reply time = store.ask(filled.key(), {"TIME"});
        const std::int64_t nowMs = timeIn(checked(time, "TIME"));
        Filler(store, form, filled.key(), plan, progress).fill(arrivals(plan, nowMs), done);
        const Reply bytes = store.ask(filled.key(), {"MEMORY", "USAGE", filled.key(), "SAMPLES", "0"});
        measured.push_back({&form, checked(bytes, "MEMORY USAGE").numberOr(0)});
    }
    return measured;
}

/// The maxmemory of each master: three quarters of it, above which doctor warns, hold what is there now and the logs.
/// Rounded up to two digits of a unit of redis.conf.
std::int64_t suggestedMaxmemory(double logs, const Memory& memory) {
    constexpr std::int64_t megabyte = 1'000'000;
    const double bytes = (static_cast<double>(memory.used) + logs) / 0.75 / static_cast<double>(memory.masters);
    const auto megabytes = static_cast<std::int64_t>(std::ceil(bytes / megabyte));
    std::int64_t unit = 1;
    while (megabytes / unit >= 100) {
        unit *= 10;
    }
    return (megabytes + unit - 1) / unit * unit * megabyte;
}

/// As in CONFIG SET and redis.conf: `m` is a million bytes.
std::string maxmemoryText(std::int64_t bytes) {
    return std::to_string(bytes / 1'000'000) + "m";
}

std::string human(const Plan& plan, const Memory& memory, const std::vector<Measured>& measured) {
    using enum Table::Align;
    Table table({{"algorithm"},
                 {"one key", Right},
                 {"an entry", Right},
                 {grouped(plan.keys) + " keys", Right},
                 {"of maxmemory", Right},
                 {"suggested maxmemory", Right}});
    for (const Measured& each : measured) {
        const auto bytes = static_cast<double>(each.bytes);
        const double all = bytes * static_cast<double>(plan.keys);
        table.row({std::string(each.form->name()), byteSize(bytes),
                   decimal(bytes / static_cast<double>(plan.entries), 2) + " B", byteSize(all),
                   memory.most == 0 ? "-" : decimal(100 * all / static_cast<double>(memory.most), 1) + " %",
                   maxmemoryText(suggestedMaxmemory(all, memory))});
    }
    return grouped(plan.entries) + " requests of each key in a window of " + duration(plan.windowMs) + ":\n\n" +
           table.text() + "\n" +
           (memory.most == 0 ? "maxmemory is not set" : "maxmemory " + byteSize(static_cast<double>(memory.most))) +
           "; used now: " + byteSize(static_cast<double>(memory.used)) + "\n" +
           (memory.masters == 1 ? "the suggested maxmemory"
                                : "the suggested maxmemory, of each of the " + grouped(memory.masters) + " masters,") +
           " leaves a quarter free in addition to the memory used now\n";
}

std::string json(const Plan& plan, const Memory& memory, const std::vector<Measured>& measured) {
    Json out;
    out.beginObject().member("keys", plan.keys).member("entries", plan.entries).member("window_ms", plan.windowMs);
    out.member("used_memory", memory.used).member("maxmemory", memory.most).name("algorithms").beginArray();
    for (const Measured& each : measured) {
        out.beginObject().member("algorithm", each.form->name()).member("key_bytes", each.bytes);
        out.member("bytes", each.bytes * plan.keys);
        out.member("suggested_maxmemory",
                   suggestedMaxmemory(static_cast<double>(each.bytes) * static_cast<double>(plan.keys), memory))
            .endObject();
    }
    return out.endArray().endObject().line() + "\n";
}

Status runSize(const Context& context) {
    const Arguments& arguments = context.arguments;
    if (!arguments.words().empty()) {
        throw UsageError("size takes no operand: \"" + printable(arguments.words().front()) + "\"");
    }
    const Plan plan{arguments.count("--keys", 10'000, 1, 1'000'000'000),
                    arguments.count("--entries", 1000, 1, kMostEntries), arguments.time("--window", 60'000),
                    static_cast<std::size_t>(arguments.count("--id-length", 0, 14, 1000))};
    Store store(context.settings);
    const Memory memory = memoryOf(store);
    const std::int64_t needed = plan.entries * (kBytesOfAnEntry + static_cast<std::int64_t>(plan.idLength));
    const std::int64_t room = (memory.most - memory.used) / static_cast<std::int64_t>(store.masters().size());
    if (memory.most > 0 && needed > room / 2) {
        throw CouldNotAsk(
            "a key of " + grouped(plan.entries) + " entries may take " + byteSize(static_cast<double>(needed)) +
            ", more than half of the free memory: nothing was written; run it on an empty Redis of the same version "
            "instead: redis-server --port 6380 on this machine, and --server 127.0.0.1:6380; or with fewer --entries");
    }
    const std::vector<Measured> measured = measure(store, context.prefix, plan);
    print(context.json ? json(plan, memory, measured) : human(plan, memory, measured));
    return Status::Ok;
}

}  // namespace

const ToolCommand kSize = {"size", "", "measures the memory that logs take in Redis, by algorithm", kSizeOptions,
                           runSize};

}  // namespace sliding_log::tool
