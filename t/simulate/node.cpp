#include "node.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "write_file.hpp"

namespace simulate {

namespace {

/// A killed worker is replaced by its master after this.
constexpr Time kRespawn = 20 * kMs;

/// A master opens the locks of a killed worker after this, on the average.
constexpr Time kUnlock = 500 * kUs;

/// The nodes by machine, so that a worker that starts finds its own.
std::map<const Machine*, Node*> nodes;

}  // namespace

struct Node::Worker {
    std::unique_ptr<NginxCopy> copy;
    std::shared_ptr<Generation> generation;
    int number = 0;
    bool isOld = false;  // there is another configuration
    bool quits = false;
    std::unique_ptr<Process> process;
};

Node::Node(Kernel& kernel, Machine& machine, NginxCopies& copies, std::string folder, Random random,
           std::uint64_t betweenSwitches)
    : kernel_(kernel),
      machine_(machine),
      copies_(copies),
      folder_(std::move(folder)),
      random_(random),
      betweenSwitches_(betweenSwitches) {
    nodes[&machine] = this;
}

Node::~Node() {
    for (const auto& worker : workers_) {
        simulate::kill(*worker->process);
    }
    bury();
    nodes.erase(&machine_);
    for (const Memory& zone : zones_) {
        munmap(zone.begin, zone.size);
    }
}

Node& Node::of(const Machine& machine) {
    return *nodes.at(&machine);
}

void Node::configure(const std::string& text, int workers) {
    auto generation = std::make_shared<Generation>();
    if (generation_ != nullptr) {
        generation->zoneBefore = generation_->zone != nullptr ? generation_->zone : generation_->zoneBefore;
    }
    generation->file = folder_ + std::to_string(machine_.host) + "-" + std::to_string(generations_++) + ".conf";
    writeFile(generation->file, text);
    for (const auto& worker : workers_) {
        worker->isOld = true;
    }
    generation_ = generation;
    for (int i = 0; i < workers; i++) {
        start(generation, i);
    }
    // a master tells the old ones 100 ms after it has started the new ones
    kernel_.schedule().after(100 * kMs, [this] {
        for (const auto& worker : workers_) {
            if (worker->isOld && !std::exchange(worker->quits, true)) {
                worker->copy->quit();
                worker->process->isInterrupted = true;
                wake(*worker->process);
            }
        }
    });
}

void Node::start(std::shared_ptr<Generation> generation, int number) {
    auto worker = std::make_unique<Worker>();
    Worker& self = *worker;
    self.copy = copies_.take();
    self.generation = std::move(generation);
    self.number = number;
    self.process = std::make_unique<Process>(machine_, kernel_, random_.branch(), [this, &self] {
        const int status = self.copy->run(folder_, self.generation->file, self.number, self.generation->configuration);
        failures_ += status != 0 ? 1 : 0;
        kernel_.schedule().after(0, [this] { bury(); });
    });
    self.process->continues = [&self] { self.copy->enter(); };
    self.process->killedAtStep = [this, &self] {
        replace(self);
        kernel_.schedule().after(0, [this] { bury(); });
    };
    workers_.push_back(std::move(worker));
}

/// Forgets the workers that have ended. Their copies are used again.
void Node::bury() {
    for (auto& worker : workers_) {
        if (worker->process->state == Process::State::Ended) {
            copies_.giveBack(std::move(worker->copy));
            worker->process->run = worker->process->continues = nullptr;
            worker->process->stack = nullptr;
            dead_.push_back(std::move(worker));
        }
    }
    std::erase(workers_, nullptr);
}

std::size_t Node::heap() const {
    const auto bytesOf = [](const auto& worker) { return worker->process->heap.bytes(); };
    return workers_.empty() ? 0 : std::ranges::max(workers_ | std::views::transform(bytesOf));
}

bool Node::hasOlder() const {
    return std::ranges::any_of(workers_, [](const auto& worker) { return worker->isOld; });
}

void Node::kill(std::size_t worker) {
    Worker& victim = *workers_[worker];
    simulate::kill(*victim.process);
    replace(victim);
    bury();
}

void Node::killAtStep(std::size_t worker, std::uint64_t step) {
    workers_[worker]->process->steps.untilKilled = step;
}

/// A master does so when it gets the signal CHLD.
void Node::replace(const Worker& killed) {
    unlock(killed);
    if (killed.generation == generation_) {
        kernel_.schedule().after(kRespawn, [this, generation = generation_, number = killed.number] {
            if (generation == generation_) {
                start(generation, number);
            }
        });
    }
}

void Node::unlock(const Worker& killed) {
    kernel_.schedule().after(drawn(random_, kUnlock),
                             [this, unlock = killed.copy->unlock(), pid = killed.process->pid] {
                                 for (const Memory& zone : zones_) {
                                     unlock(zone.begin, pid);
                                 }
                                 machine_.formerPids.push_back(pid);
                             });
}

void Node::stop(std::size_t worker) {
    simulate::stop(*workers_[worker]->process);
}

void Node::resume(std::size_t worker) {
    simulate::resume(*workers_[worker]->process);
}

std::string Node::inUse(const std::function<bool(std::string_view)>& mayBeLeft) const {
    if (workers_.empty() || generation_->zone == nullptr) {
        return {};
    }
    struct Found {
        const Node& node;
        const std::function<bool(std::string_view)>& mayBeLeft;
        std::string what;
    } found{*this, mayBeLeft, {}};
    const SimulatedVisitor visitor{
        .data = &found,
        .log =
            [](void* data, const char* name, std::size_t length) {
                Found& to = *static_cast<Found*>(data);
                to.what = to.mayBeLeft({name, length}) ? to.what : "a log of " + std::string(name, length);
            },
        // the ticket of a dead worker stays until somebody looks for this log
        .ticket =
            [](void* data, int worker) {
                Found& to = *static_cast<Found*>(data);
                to.what = to.node.machine_.processes.contains(worker) ? "a ticket" : to.what;
            },
    };
    const auto now = static_cast<std::uint64_t>((machine_.bootedBefore + kernel_.schedule().now()) / kMs);
    workers_.front()->copy->inUse()(generation_->zone->begin, now, &visitor);
    return found.what;
}

Node::Generation& Node::generationOfCurrent() {
    const auto isCurrent = [](const auto& worker) { return worker->process.get() == current(); };
    return *(*std::ranges::find_if(workers_, isCurrent))->generation;
}

void* Node::sharedMemory(std::size_t size, bool& isNew) {
    Generation& generation = generationOfCurrent();
    isNew = false;
    if (generation.zone == nullptr && generation.zoneBefore != nullptr && generation.zoneBefore->size == size) {
        generation.zone = generation.zoneBefore;
        generation.configuration.isReload = true;
    } else if (generation.zone == nullptr) {
        void* begin = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (begin == MAP_FAILED) {
            return nullptr;
        }
        generation.zone = &zones_.emplace_back(begin, size);
        isNew = true;
    }
    return generation.zone->begin;
}

void Node::beginSteps() {
    const Memory& memory = *generationOfCurrent().zone;
    SharedSteps steps;
    steps.memory = {reinterpret_cast<std::uintptr_t>(memory.begin), memory.size};
    steps.between = betweenSwitches_;
    steps.untilSwitch = random_.below(2 * betweenSwitches_) + 1;
    if (betweenSwitches_ > 0) {
        simulate::beginSteps(steps);
    }
}

}  // namespace simulate

void simulateServing(void) {
    simulate::current()->heap.begin();
    simulate::Node::of(simulate::current()->machine).beginSteps();
}

void* simulateSharedMemory(std::size_t size, int* isNew) {
    bool isFirst = false;
    simulate::Node& node = simulate::Node::of(simulate::current()->machine);
    void* memory = node.sharedMemory(size, isFirst);
    *isNew = isFirst ? 1 : 0;
    return memory;
}
