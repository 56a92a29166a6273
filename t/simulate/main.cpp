// ./build.sh simulate: worlds of nodes and their Redis in virtual time, each drawn from its seed.
//
// Usage: simulate [--seconds N | --requests N] [--seed S] [--trace] [--error-log FILE]
// Exit status: 0: no failure; 1: a limit was not kept, or a request not answered; 2: wrong usage.
#include <dirent.h>
#include <sys/personality.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>

#include "fleet.hpp"

namespace {

/// Requests of one world.
constexpr std::uint64_t kOfWorld = 3000;

struct Options {
    std::uint64_t seconds = 10;
    std::uint64_t requests = 0;
    std::uint64_t seed = 1;
    std::string errorLog;
    bool isTraced = false;
};

bool read(int count, char** words, Options& options) {
    for (int i = 1; i < count; i++) {
        const std::string_view word = words[i];
        std::uint64_t* number = word == "--seconds"    ? &options.seconds
                                : word == "--requests" ? &options.requests
                                : word == "--seed"     ? &options.seed
                                                       : nullptr;
        if (word == "--trace") {
            options.isTraced = true;
        } else if (word == "--error-log" && ++i < count) {
            options.errorLog = words[i];
        } else if (number == nullptr || ++i == count ||
                   std::from_chars(words[i], words[i] + std::strlen(words[i]), *number).ptr[0] != '\0') {
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

double realSeconds() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

}  // namespace

int main(int count, char** words) {
    fixAddresses(words);
    Options options;
    if (!read(count, words, options)) {
        std::fputs("usage: simulate [--seconds N | --requests N] [--seed S] [--trace] [--error-log FILE]\n", stderr);
        return 2;
    }
    tzset();  // before a process of the simulation would read the time zone
    const std::string here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    simulate::NginxCopies copies(here + "/nginx.so");
    char folder[] = "/tmp/simulate-XXXXXX";
    if (mkdtemp(folder) == nullptr) {
        std::perror(folder);
        return 2;
    }
    const simulate::Surroundings surroundings{copies, here + "/redis_sliding_log.so", std::string(folder) + "/",
                                              options.errorLog.empty() ? "/dev/null crit" : options.errorLog + " info",
                                              options.isTraced};
    simulate::Figures sum;
    sum.trace = 0;
    const double begin = realSeconds();
    std::uint64_t seed = options.seed;
    while (sum.failure.empty() &&
           (options.requests > 0 ? sum.requests < options.requests
                                 : realSeconds() - begin < static_cast<double>(options.seconds))) {
        const std::uint64_t most =
            options.requests > 0 ? std::min(kOfWorld, options.requests - sum.requests) : kOfWorld;
        simulate::Fleet fleet(seed, surroundings);
        const simulate::Figures one = fleet.run(most);
        sum.requests += one.requests;
        sum.faults += one.faults;
        sum.simulated += one.simulated;
        sum.trace = sum.trace * 31 + one.trace;
        sum.failure = one.failure;
        if (!one.failure.empty()) {
            std::printf("seed %llu: %s\n./build.sh simulate --seed %llu --requests %llu --trace\n",
                        static_cast<unsigned long long>(seed), one.failure.c_str(),
                        static_cast<unsigned long long>(seed), static_cast<unsigned long long>(most));
        }
        seed++;
    }
    std::filesystem::remove_all(folder);
    std::printf("%llu requests, %llu faults, %.0f s simulated: %s; trace %016llx\n",
                static_cast<unsigned long long>(sum.requests), static_cast<unsigned long long>(sum.faults),
                static_cast<double>(sum.simulated) / simulate::kSecond,
                sum.failure.empty() ? "no failure" : sum.failure.c_str(), static_cast<unsigned long long>(sum.trace));
    std::fflush(stdout);
    _exit(sum.failure.empty() ? 0 : 1);  // what abandoned workers have left is not to be destroyed
}
