// nginx as a worker process of the simulation: what its main() and its worker cycle do, without a master. This file is
// linked with nginx's own objects into a shared object, of which each worker has a copy with globals of its own.
#include "nginx_worker.hpp"

#include <algorithm>
#include <span>
#include <string_view>

#include "local/local_log.hpp"
#include "local/zone.hpp"
#include "ngx.hpp"
#include "node/node_queue.hpp"

extern "C" {

/// Instead of nginx's ngx_shmem.c, for the only zone: all workers of a configuration get the same memory. The first one
/// initialises it.
ngx_int_t ngx_shm_alloc(ngx_shm_t* shm) {
    int isNew = 0;
    shm->addr = static_cast<u_char*>(simulateSharedMemory(shm->size, &isNew));
    shm->exists = isNew == 0;
    return shm->addr == nullptr ? NGX_ERROR : NGX_OK;
}

void ngx_shm_free(ngx_shm_t*) {}
}

namespace sliding_log {

namespace {

/// nullptr: no limit is configured.
ngx_shm_zone_t* memoryOf(const ngx_cycle_t& cycle) {
    const ngx_list_part_t& part = cycle.shared_memory.part;
    const std::span zones(static_cast<ngx_shm_zone_t*>(part.elts), part.nelts);
    const auto found =
        std::ranges::find(zones, "sliding_log", [](const ngx_shm_zone_t& zone) { return view(zone.shm.name); });
    return found == zones.end() ? nullptr : &*found;
}

/// A master initialises the zone for each configuration once, and its workers inherit what it has found. Here each
/// worker reads the configuration: all but the first of a configuration only attach.
void attachAsInherited(const ngx_cycle_t& cycle, SimulatedConfiguration& configuration) {
    ngx_shm_zone_t* memory = memoryOf(cycle);
    if (memory == nullptr) {
        return;
    }
    Zone& zone = *static_cast<Zone*>(memory->data);
    RegistryHeader& registry = zone.header->registry;
    if (configuration.number != 0) {
        registry.configurations--;
        zone.configuration = configuration.number;
        return;
    }
    if (configuration.isReload) {
        registry.configurations--;
        Zone before = zone;
        memory->init(memory, &before);
    }
    configuration.number = zone.configuration;
}

/// The module was compiled for an nginx that looks the same. A module that is linked in is not asked by nginx.
bool haveSameSignature(const ngx_cycle_t& cycle) {
    const std::span modules(cycle.modules, cycle.modules_n);
    return std::ranges::all_of(modules, [](const ngx_module_t* module) {
        return std::string_view(module->signature) == NGX_MODULE_SIGNATURE;
    });
}

ngx_cycle_t* readConfiguration(const char* folder, const char* file) {
    static u_char noPrefix[] = "";
    static u_char noFile[] = "";  // stderr
    static char name[] = "nginx";
    static char* arguments[] = {name, nullptr};
    static ngx_cycle_t first;
    ngx_os_argv = arguments;
    ngx_argc = 1;
    ngx_max_sockets = -1;
    ngx_log_t* log = ngx_strerror_init() == NGX_OK ? (ngx_time_init(), ngx_log_init(noPrefix, noFile)) : nullptr;
    if (log == nullptr) {
        return nullptr;
    }
    ngx_pid = ngx_getpid();
    first.log = log;
    ngx_cycle = &first;
    first.pool = ngx_create_pool(1024, log);
    first.prefix = first.conf_prefix = toNgx(folder);
    first.conf_file = toNgx(file);
    first.error_log = toNgx("/dev/null");
    if (first.pool == nullptr || ngx_os_init(log) != NGX_OK || ngx_crc32_table_init() != NGX_OK) {
        return nullptr;
    }
    ngx_slab_sizes_init();
    if (ngx_preinit_modules() != NGX_OK) {
        return nullptr;
    }
    return ngx_init_cycle(&first);
}

}  // namespace

}  // namespace sliding_log

int simulateWorker(const char* folder, const char* file, int number, SimulatedConfiguration* configuration) {
    ngx_cycle_t* cycle = sliding_log::readConfiguration(folder, file);
    if (cycle == nullptr) {
        return 1;
    }
    ngx_cycle = cycle;
    ngx_use_stderr = 0;
    ngx_process = NGX_PROCESS_WORKER;
    ngx_worker = static_cast<ngx_uint_t>(number);
    if (!sliding_log::haveSameSignature(*cycle)) {
        return 3;
    }
    sliding_log::attachAsInherited(*cycle, *configuration);
    for (ngx_uint_t i = 0; cycle->modules[i] != nullptr; i++) {
        if (cycle->modules[i]->init_process != nullptr && cycle->modules[i]->init_process(cycle) == NGX_ERROR) {
            return 2;
        }
    }
    simulateServing();
    while (ngx_terminate == 0 && !(ngx_exiting != 0 && ngx_event_no_timers_left() == NGX_OK)) {
        ngx_process_events_and_timers(cycle);
        if (ngx_quit != 0 && ngx_exiting == 0) {
            ngx_quit = 0;
            ngx_exiting = 1;
            ngx_set_shutdown_timer(cycle);
            ngx_close_listening_sockets(cycle);
            ngx_close_idle_connections(cycle);
        }
    }
    for (ngx_uint_t i = 0; cycle->modules[i] != nullptr; i++) {
        if (cycle->modules[i]->exit_process != nullptr) {
            cycle->modules[i]->exit_process(cycle);
        }
    }
    ngx_destroy_pool(cycle->pool);
    return 0;
}

void simulateUnlock(void* memory, int pid) {
    ngx_shmtx_force_unlock(&static_cast<ngx_slab_pool_t*>(memory)->mutex, static_cast<ngx_uint_t>(pid));
}

/// What a worker that was killed was changing counts for nothing, as for the next one that looks.
void simulateInUse(void* memory, std::uint64_t now, const SimulatedVisitor* visitor) {
    using namespace sliding_log;
    ZoneHeader& header = *static_cast<ZoneHeader*>(static_cast<ngx_slab_pool_t*>(memory)->data);
    if (header.isRelinking) {
        return;
    }
    header.limits.forEach([&](LocalLimit& limit) {
        for (ngx_queue_t* link = ngx_queue_head(&limit.logs); link != &limit.logs; link = ngx_queue_next(link)) {
            const LogState& state = LocalLog::of(link).state;
            if (!state.wasLeft() && state.endsAt() > now) {
                visitor->log(visitor->data, limit.shownName().data(), limit.shownName().size());
            }
        }
    });
    ngx_rbtree_t& queues = header.queues;
    ngx_rbtree_node_t* node = queues.root == queues.sentinel ? nullptr : ngx_rbtree_min(queues.root, queues.sentinel);
    for (; node != nullptr; node = ngx_rbtree_next(&queues, node)) {
        NodeQueue& queue = *ngx_queue_data(reinterpret_cast<ngx_str_node_t*>(node), NodeQueue, node);
        for (ngx_queue_t* link = ngx_queue_head(&queue.tickets); link != &queue.tickets; link = ngx_queue_next(link)) {
            const Ticket& ticket = *ngx_queue_data(link, Ticket, link);
            visitor->ticket(visitor->data, ticket.worker);
        }
    }
}

void simulateQuit(void) {
    ngx_quit = 1;
}
