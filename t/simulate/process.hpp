// Processes of simulated machines: coroutines with descriptors and a process id. They run until they wait in the
// kernel, so only one runs at a time.
#pragma once

#include <ucontext.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "heap.hpp"
#include "kernel.hpp"

namespace simulate {

/// A host with its clocks and its processes.
struct Machine {
    Machine(Host address, Time wallAhead, Time bootedBefore)
        : host(address), wallAhead(wallAhead), bootedBefore(bootedBefore) {}

    Host host;
    Time wallAhead;     // of its wall clock, before the virtual time
    Time bootedBefore;  // the simulation began
    int nextPid = 1000;
    std::vector<int> formerPids;  // of processes that are gone, which may be used again
    std::uint16_t nextPort = 20'000;
    std::map<int, Process*> processes;  // that have not ended
};

/// Memory that processes share. None: its size is 0.
struct SharedMemory {
    std::uintptr_t begin = 0;
    std::size_t size = 0;
};

/// The accesses of a process to memory that it shares with others, each a step: at some of them it is switched out, at
/// one it may be killed. In a build of nginx that tells of its accesses (steps.cpp).
struct SharedSteps {
    SharedMemory memory;
    std::uint64_t between = 0;      // two switches, on the average; 0: there are none
    std::uint64_t untilSwitch = 0;  // 0: never
    std::uint64_t untilKilled = 0;  // 0: never
};

struct Process {
    enum class State { Ready, Running, Waiting, Ended };

    Process(Machine& machine, Kernel& kernel, Random random, std::function<void()> run);
    ~Process();

    Machine& machine;
    Kernel& kernel;
    int pid;
    Random random;  // what the process asks the system for
    State state = State::Ready;
    bool isStopped = false;      // SIGSTOP
    bool isInterrupted = false;  // by a signal: what it waits for ends
    bool isDue = false;          // to run again, but it is stopped
    bool isSwitchedOut = false;  // at a step, in the middle of a turn
    Time busyUntil = 0;          // the CPU is in use
    std::uint64_t wait = 0;      // the number of its waits: timeouts of earlier ones are void
    std::vector<std::shared_ptr<File>> files;
    SharedSteps steps;
    Heap heap;

    std::function<void()> run;
    std::function<void()> continues;     // before it runs, each time
    std::function<void()> killedAtStep;  // after it
    std::unique_ptr<char[]> stack;
    ucontext_t context{};

    static constexpr int kFirstFile = 1 << 20;  // smaller numbers are descriptors of the real system
    int add(std::shared_ptr<File> file);
    /// It is known now what this descriptor is for.
    void replace(int descriptor, std::shared_ptr<File> file);
    /// nullptr: not a descriptor of this process.
    std::shared_ptr<File> file(int descriptor) const;
    bool close(int descriptor);

    /// It has come to an access of shared memory.
    void step();
};

/// The process that runs; nullptr: the simulation itself.
extern Process* running;
inline Process* current() {
    return running;
}

/// Of the process that runs.
extern SharedMemory sharedOfRunning __attribute__((visibility("hidden")));  // steps.cpp is asked at each access

/// The steps of the process that runs begin.
void beginSteps(const SharedSteps& steps);

/// The process that runs gives up the CPU until it is woken.
void waitInKernel();

/// The same for so long.
void sleepInKernel(Time time);

/// Lets the process run, or continue, as soon as it may.
void wake(Process& process);

/// Ends it at once: SIGKILL. Its descriptors are closed as the kernel does.
void kill(Process& process);
void stop(Process& process);
void resume(Process& process);

}  // namespace simulate
