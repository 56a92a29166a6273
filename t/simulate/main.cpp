// ./build.sh simulate: worlds of nodes and their Redis in virtual time, each drawn from its seed.
//
// Usage: simulate [--seconds N | --requests N] [--seed S] [--world WORLD] [--jobs N] [--steps] [--trace]
//                 [--error-log FILE] [--without-requests NUMBERS] [--without-faults NUMBERS]
//        simulate --fleet NODESxWORKERS [--seed S]
// Exit status: 0: no failure; 1: a limit was not kept, or a request not answered; 2: wrong usage.
#include <sys/personality.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "fleet.hpp"
#include "scale.hpp"
#include "smaller.hpp"

namespace {

using simulate::Figures;
using simulate::Numbers;
using simulate::Simulation;
using simulate::Surroundings;
using simulate::World;

/// Requests of one world.
constexpr std::uint64_t kOfWorld = 3000;

/// So long a world that fails is made smaller.
constexpr std::chrono::seconds kSmallerTakes{40};

/// As many workers as most worlds have at a time: their copies of nginx are loaded once for all worlds.
constexpr std::size_t kCopies = 12;

struct Options {
    std::uint64_t seconds = 10;
    std::uint64_t requests = 0;
    std::uint64_t jobs = 1;  // worlds at a time
    World first;             // its seed, and what is left out
    std::string errorLog;
    bool isTraced = false;
    bool hasSteps = false;  // of workers in shared memory
    simulate::FleetSize fleet;
};

bool readNumber(std::string_view text, std::uint64_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

bool readNumbers(std::string_view text, Numbers& numbers) {
    const auto read = Numbers::read(text);
    numbers = read.value_or(Numbers());
    return read.has_value();
}

/// NODESxWORKERS
bool readFleet(std::string_view text, simulate::FleetSize& size) {
    const std::size_t at = text.find('x');
    std::uint64_t nodes = 0;
    std::uint64_t workers = 0;
    if (at == std::string_view::npos || !readNumber(text.substr(0, at), nodes) ||
        !readNumber(text.substr(at + 1), workers)) {
        return false;
    }
    size = {nodes, workers};
    return nodes > 0 && nodes <= 60'000 && workers > 0 && workers <= 64;
}

bool readKind(std::string_view text, simulate::Kind& kind) {
    const auto read = simulate::kindNamed(text);
    kind = read.value_or(simulate::Kind::Any);
    return read.has_value();
}

bool read(int count, char** words, Options& options) {
    for (int i = 1; i < count; i++) {
        const std::string_view word = words[i];
        if (word == "--trace" || word == "--steps") {
            (word == "--trace" ? options.isTraced : options.hasSteps) = true;
            continue;
        }
        if (++i == count) {
            return false;
        }
        const std::string_view value = words[i];
        if (word == "--error-log") {
            options.errorLog = value;
        } else if (!(word == "--seconds"            ? readNumber(value, options.seconds)
                     : word == "--requests"         ? readNumber(value, options.requests)
                     : word == "--seed"             ? readNumber(value, options.first.seed)
                     : word == "--world"            ? readKind(value, options.first.kind)
                     : word == "--fleet"            ? readFleet(value, options.fleet)
                     : word == "--jobs"             ? readNumber(value, options.jobs) && options.jobs > 0
                     : word == "--without-requests" ? readNumbers(value, options.first.withoutRequests)
                     : word == "--without-faults"   ? readNumbers(value, options.first.withoutFaults)
                                                    : false)) {
            return false;
        }
    }
    return true;
}

/// Addresses are the same in each run, so that what depends on them is, too.
void fixAddresses(char** words) {
    const int now = personality(0xffffffff);
    if (now != -1 && (now & ADDR_NO_RANDOMIZE) == 0 &&
        personality(static_cast<unsigned>(now) | ADDR_NO_RANDOMIZE) != -1) {
        execv("/proc/self/exe", words);
    }
}

class Worlds {
  public:
    Worlds(const Options& options, const Surroundings& surroundings)
        : options_(options),
          surroundings_(surroundings),
          end_(std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds)),
          next_(options.first) {}

    /// Simulates one after the other, some at a time, until one fails.
    Figures run() {
        while (sum_.failure.empty()) {
            while (running_.size() < (options_.isTraced ? 1 : options_.jobs) && hasNext()) {
                start();
            }
            if (running_.empty()) {
                break;
            }
            const Running first = std::move(running_.front());
            running_.pop_front();
            add(first.world, first.simulation->figures());
        }
        return sum_;
    }

  private:
    struct Running {
        World world;
        std::unique_ptr<Simulation> simulation;
    };

    bool hasNext() const {
        return options_.requests > 0 ? begun_ < options_.requests : std::chrono::steady_clock::now() < end_;
    }

    void start() {
        next_.requests = options_.requests > 0 ? std::min(kOfWorld, options_.requests - begun_) : kOfWorld;
        begun_ += next_.requests;
        running_.push_back({next_, std::make_unique<Simulation>(next_, surroundings_)});
        next_.seed++;
    }

    void add(const World& world, const Figures& one) {
        sum_.requests += one.requests;
        sum_.faults += one.faults;
        sum_.simulated += one.simulated;
        sum_.trace = sum_.trace * 31 + one.trace;
        sum_.failure = one.failure;
        if (!one.failure.empty()) {
            running_.clear();
            std::printf("seed %llu: %s\n./build.sh simulate %s%s\n", static_cast<unsigned long long>(world.seed),
                        one.failure.c_str(), options_.hasSteps ? "--steps " : "", world.options().c_str());
            if (!options_.isTraced) {
                explain(world, one);
            }
        }
    }

    void explain(const World& world, const Figures& one) const {
        std::puts("The same with less:");
        const World less = simulate::smaller(world, one, surroundings_, kSmallerTakes);
        Surroundings traced = surroundings_;
        traced.isTraced = true;
        const Figures figures = Simulation(less, traced).figures();
        std::printf("%s\n./build.sh simulate %s%s --trace\n", figures.failure.c_str(),
                    options_.hasSteps ? "--steps " : "", less.options().c_str());
    }

    const Options& options_;
    const Surroundings& surroundings_;
    std::chrono::steady_clock::time_point end_;
    World next_;
    std::uint64_t begun_ = 0;  // requests of the worlds that have begun
    std::deque<Running> running_;
    Figures sum_;
};

}  // namespace

int main(int count, char** words) {
    fixAddresses(words);
    Options options;
    if (!read(count, words, options)) {
        std::fputs(
            "usage: simulate [--seconds N | --requests N] [--seed S] [--world WORLD] [--jobs N] [--steps] [--trace]\n"
            "                [--error-log FILE] [--without-requests NUMBERS] [--without-faults NUMBERS]\n"
            "       simulate --fleet NODESxWORKERS [--seed S]\n"
            "WORLD: any, standalone, sentinel, cluster, regions, permits, queues, names, replaced, slow, large\n",
            stderr);
        return 2;
    }
    tzset();  // before a process of the simulation would read the time zone
    char folder[] = "/tmp/simulate-XXXXXX";
    if (mkdtemp(folder) == nullptr) {
        std::perror(folder);
        return 2;
    }
    const std::string here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    Figures sum;
    try {
        simulate::NginxCopies copies(here + (options.hasSteps ? "/nginx_steps.so" : "/nginx.so"),
                                     options.fleet.nodes > 0 ? 0 : kCopies);
        const Surroundings surroundings{copies,
                                        here + "/redis_sliding_log.so",
                                        std::string(folder) + "/",
                                        options.errorLog.empty() ? "/dev/null crit" : options.errorLog + " info",
                                        options.isTraced,
                                        options.hasSteps};
        if (options.fleet.nodes > 0) {
            simulate::simulateScale(options.fleet, options.first.seed, surroundings);
        } else {
            sum = Worlds(options, surroundings).run();
        }
    } catch (const std::exception& error) {
        sum.failure = error.what();
    }
    std::filesystem::remove_all(folder);
    if (options.fleet.nodes > 0 && sum.failure.empty()) {
        return 0;
    }
    std::printf("%llu requests, %llu faults, %.0f s simulated: %s; trace %016llx\n",
                static_cast<unsigned long long>(sum.requests), static_cast<unsigned long long>(sum.faults),
                static_cast<double>(sum.simulated) / simulate::kSecond,
                sum.failure.empty() ? "no failure" : sum.failure.c_str(), static_cast<unsigned long long>(sum.trace));
    return sum.failure.empty() ? 0 : 1;
}
