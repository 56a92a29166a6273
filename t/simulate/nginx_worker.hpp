// What the simulation and its copies of nginx call of each other.
#pragma once

#include <cstddef>
#include <cstdint>

/// One configuration of a node, as a master reads it once.
struct SimulatedConfiguration {
    bool isReload = false;     // workers of another configuration have used the zone
    std::uint64_t number = 0;  // of the zone; 0: no worker has attached yet
};

/// What a zone has for requests. `data` is passed to the functions.
struct SimulatedVisitor {
    void* data;
    void (*log)(void* data, const char* name, std::size_t length);  // of that NAME; not all its entries have left
    void (*ticket)(void* data, int worker);                         // of that process: a request waits for a place
};

extern "C" {

/// In the copy: runs a worker until it ends; 0: it has quit. `folder`: nginx's prefix, with a slash at its end.
__attribute__((visibility("default"))) int simulateWorker(const char* folder, const char* file, int number,
                                                          SimulatedConfiguration* configuration);

/// In the copy: the signal QUIT.
__attribute__((visibility("default"))) void simulateQuit(void);

/// In the copy: what a master does for a worker that was killed, and may have held the lock of this memory.
__attribute__((visibility("default"))) void simulateUnlock(void* memory, int pid);

/// In the copy: visits what this memory, a zone, has for requests at `now`, in ms of nginx.
__attribute__((visibility("default"))) void simulateInUse(void* memory, std::uint64_t now,
                                                          const SimulatedVisitor* visitor);

/// In the simulation: the worker has read the configuration, and serves.
void simulateServing(void);

/// In the simulation: the zone of the configuration whose worker runs.
void* simulateSharedMemory(std::size_t size, int* isNew);
}
