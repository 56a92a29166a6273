#include "world.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fleet.hpp"

namespace simulate {

namespace {

/// Seconds of CPU. A world takes a tenth of one, or some with sanitizers.
constexpr rlim_t kMostCpu = 120;

/// Simulates the world, and writes its figures.
[[noreturn]] void simulateHere(const World& world, const Surroundings& surroundings, int to) {
    const rlimit most{kMostCpu, kMostCpu + 1};  // SIGXCPU, and SIGKILL
    setrlimit(RLIMIT_CPU, &most);
    Figures figures;
    Surroundings own = surroundings;
    own.folder += std::to_string(getpid()) + "/";
    try {
        std::filesystem::create_directory(own.folder);
        figures = Fleet(world, own).run();
        std::filesystem::remove_all(own.folder);
    } catch (const std::exception& error) {
        figures.failure = error.what();
    }
    std::fflush(stdout);
    const std::array<std::uint64_t, 4> numbers = {figures.requests, figures.faults,
                                                  static_cast<std::uint64_t>(figures.simulated), figures.trace};
    std::string text(reinterpret_cast<const char*>(numbers.data()), sizeof numbers);
    text += figures.failure;
    const bool isWritten = write(to, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(isWritten ? 0 : 1);  // what abandoned workers have left is not to be destroyed
}

std::string endOf(int status) {
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
        return "no end after " + std::to_string(kMostCpu) + " s of CPU";
    }
    return WIFSIGNALED(status) ? std::string("crash: ") + strsignal(WTERMSIG(status)) : "the process failed";
}

}  // namespace

std::string World::options() const {
    std::string text = kind == Kind::Any ? "" : "--world " + std::string(nameOf(kind)) + " ";
    text += "--seed " + std::to_string(seed) + " --requests " + std::to_string(requests);
    text += withoutRequests.isEmpty() ? "" : " --without-requests " + withoutRequests.text();
    text += withoutFaults.isEmpty() ? "" : " --without-faults " + withoutFaults.text();
    return text;
}

Simulation::Simulation(const World& world, const Surroundings& surroundings) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) {
        throw std::system_error(errno, std::generic_category(), "pipe");
    }
    std::fflush(stdout);
    process_ = fork();
    if (process_ == 0) {
        close(ends[0]);
        simulateHere(world, surroundings, ends[1]);
    }
    close(ends[1]);
    results_ = ends[0];
    if (process_ < 0) {
        const int error = errno;
        close(results_);
        throw std::system_error(error, std::generic_category(), "fork");
    }
}

Simulation::~Simulation() {
    if (process_ > 0) {
        ::kill(process_, SIGKILL);
        waitpid(process_, nullptr, 0);
    }
    close(results_);
}

Figures Simulation::figures() {
    std::string text;
    std::array<char, 4096> piece{};
    for (ssize_t size = 0; (size = read(results_, piece.data(), piece.size())) > 0;) {
        text.append(piece.data(), static_cast<std::size_t>(size));
    }
    int status = 0;
    waitpid(std::exchange(process_, -1), &status, 0);
    std::array<std::uint64_t, 4> numbers{};
    Figures figures;
    if (status != 0 || text.size() < sizeof numbers) {
        figures.failure = endOf(status);
        return figures;
    }
    std::memcpy(numbers.data(), text.data(), sizeof numbers);
    figures.requests = numbers[0];
    figures.faults = numbers[1];
    figures.simulated = static_cast<Time>(numbers[2]);
    figures.trace = numbers[3];
    figures.failure = text.substr(sizeof numbers);
    return figures;
}

}  // namespace simulate
