#include "process.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace simulate {

namespace {

constexpr std::size_t kStackBytes = 512 * 1024;

/// What one turn of the event loop takes.
constexpr Time kTurn = 20 * kUs;

/// A process that is switched out continues after this, on the average; some later, as on a machine that is busy.
constexpr Time kSwitchedOut = 25 * kUs;
constexpr Time kSwitchedOutLong = 5 * kMs;

/// No more for each step until then, on the average, so that a decision of hundreds of steps does not take too long.
constexpr Time kStep = 2 * kUs;

/// Of SharedSteps::untilKilled: that was now.
constexpr std::uint64_t kKilled = ~std::uint64_t{0};

ucontext_t simulation;

void begin() {
    running->run();
    running->state = Process::State::Ended;
    swapcontext(&running->context, &simulation);
}

/// A machine with few process ids uses them again soon.
int takePid(Machine& machine, Random& random) {
    if (machine.formerPids.empty() || !random.once(2)) {
        return machine.nextPid++;
    }
    std::swap(machine.formerPids[random.below(machine.formerPids.size())], machine.formerPids.back());
    const int pid = machine.formerPids.back();
    machine.formerPids.pop_back();
    return pid;
}

void letGo(Process& process) {
    process.state = Process::State::Ended;
    process.machine.processes.erase(process.pid);
    for (std::size_t i = 0; i < process.files.size(); i++) {
        process.close(Process::kFirstFile + static_cast<int>(i));
    }
}

void runNow(Process& process) {
    if (process.state == Process::State::Ended) {
        return;
    }
    if (process.isStopped) {
        process.isDue = true;
        return;
    }
    process.state = Process::State::Running;
    running = &process;
    sharedOfRunning = process.steps.memory;
    if (process.continues != nullptr) {
        process.continues();
    }
    const int error = errno;
    swapcontext(&simulation, &process.context);
    errno = error;
    sharedOfRunning = {};
    running = nullptr;
    process.busyUntil = process.kernel.schedule().now() + (process.isSwitchedOut ? 0 : kTurn);
    if (process.state == Process::State::Ended) {
        letGo(process);
        if (process.steps.untilKilled == kKilled) {
            process.killedAtStep();
        }
    }
}

}  // namespace

Process* running = nullptr;
SharedMemory sharedOfRunning;

Process::Process(Machine& machine, Kernel& kernel, Random random, std::function<void()> run)
    : machine(machine),
      kernel(kernel),
      pid(takePid(machine, random)),
      random(random),
      run(std::move(run)),
      stack(std::make_unique_for_overwrite<char[]>(kStackBytes)) {
    machine.processes[pid] = this;
    getcontext(&context);
    context.uc_stack.ss_sp = stack.get();
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    makecontext(&context, begin, 0);
    state = State::Waiting;
    wake(*this);
}

Process::~Process() {
    kill(*this);
}

int Process::add(std::shared_ptr<File> file) {
    std::size_t free = 0;
    while (free < files.size() && files[free] != nullptr) {
        free++;
    }
    if (free == files.size()) {
        files.emplace_back();
    }
    files[free] = std::move(file);
    return kFirstFile + static_cast<int>(free);
}

void Process::replace(int descriptor, std::shared_ptr<File> file) {
    files[static_cast<std::size_t>(descriptor - kFirstFile)] = std::move(file);
}

std::shared_ptr<File> Process::file(int descriptor) const {
    const auto index = static_cast<std::size_t>(descriptor - kFirstFile);
    return descriptor < kFirstFile || index >= files.size() ? nullptr : files[index];
}

bool Process::close(int descriptor) {
    const auto index = static_cast<std::size_t>(descriptor - kFirstFile);
    if (descriptor < kFirstFile || index >= files.size() || files[index] == nullptr) {
        return false;
    }
    const std::shared_ptr<File> file = std::exchange(files[index], nullptr);
    Kernel::unwatch(*file);
    file->closed();
    return true;
}

void beginSteps(const SharedSteps& steps) {
    running->steps = steps;
    sharedOfRunning = steps.memory;
}

void Process::step() {
    if (steps.untilKilled > 0 && steps.untilKilled != kKilled && --steps.untilKilled == 0) {
        steps.untilKilled = kKilled;
        state = State::Ended;
        swapcontext(&context, &simulation);
    }
    if (steps.untilSwitch > 0 && --steps.untilSwitch == 0) {
        const auto next = drawn(random, static_cast<Time>(steps.between));
        steps.untilSwitch = static_cast<std::uint64_t>(next) + 1;
        const int error = errno;
        isSwitchedOut = true;
        const Time usual = std::min(kSwitchedOut, static_cast<Time>(steps.between) * kStep);
        sleepInKernel(drawn(random, random.once(1000) ? kSwitchedOutLong : usual));
        isSwitchedOut = false;
        errno = error;
    }
}

void waitInKernel() {
    running->state = Process::State::Waiting;
    swapcontext(&running->context, &simulation);
}

void sleepInKernel(Time time) {
    Process& process = *running;
    const std::uint64_t wait = ++process.wait;
    process.kernel.schedule().after(time, [&process, wait] {
        if (process.wait == wait) {
            process.wait++;
            wake(process);
        }
    });
    while (process.wait == wait) {  // something else may have woken it
        waitInKernel();
    }
}

void wake(Process& process) {
    if (process.state != Process::State::Waiting) {
        return;
    }
    process.state = Process::State::Ready;
    process.kernel.schedule().at(process.busyUntil, [&process] { runNow(process); });
}

void kill(Process& process) {
    if (process.state != Process::State::Ended) {
        letGo(process);
    }
}

void stop(Process& process) {
    process.isStopped = true;
}

void resume(Process& process) {
    process.isStopped = false;
    if (std::exchange(process.isDue, false)) {
        process.kernel.schedule().after(0, [&process] { runNow(process); });
    }
}

}  // namespace simulate
