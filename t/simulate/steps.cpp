// The hooks of -fsanitize=thread, without its library: nginx and the module, compiled so, tell of each access to
// memory. Those to the memory that workers share are steps (process.hpp). All orders of them can happen, one after the
// other; what weaker orders of memory allow cannot.
//
// Names and types are those of LLVM's sanitizer/tsan_interface.h and tsan_interface_atomic.h.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "process.hpp"

namespace {

bool isShared(const volatile void* address) {
    return reinterpret_cast<std::uintptr_t>(address) - simulate::sharedOfRunning.begin < simulate::sharedOfRunning.size;
}

void access(const volatile void* address) {
    if (isShared(address)) [[unlikely]] {
        simulate::current()->step();
    }
}

/// Of `size` bytes from each of these addresses on: a step for each word, until a piece says that it is enough.
template <typename Piece>
void inWords(const void* one, const void* other, std::size_t size, Piece piece) {
    const bool hasSteps = isShared(one) || isShared(other);
    const std::size_t most = hasSteps ? sizeof(std::uint64_t) : size;
    bool goesOn = true;
    for (std::size_t done = 0; goesOn && done < size; done += most) {
        if (hasSteps) {
            simulate::current()->step();
        }
        goesOn = piece(done, std::min(size - done, most));
    }
}

}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void** address) {
    access(address);
}
void __tsan_vptr_update(void** address, void*) {
    access(address);
}
void __tsan_read_range(void* address, unsigned long) {
    access(address);
}
void __tsan_write_range(void* address, unsigned long) {
    access(address);
}
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}

#define PLAIN(name)                     \
    void __tsan_##name(void* address) { \
        access(address);                \
    }
#define PLAIN_OF_SIZE(size) \
    PLAIN(read##size)       \
    PLAIN(write##size)      \
    PLAIN(unaligned_read##size) PLAIN(unaligned_write##size) PLAIN(volatile_read##size) PLAIN(volatile_write##size)

PLAIN_OF_SIZE(1)
PLAIN_OF_SIZE(2)
PLAIN_OF_SIZE(4)
PLAIN_OF_SIZE(8)
PLAIN_OF_SIZE(16)

#define CHANGE(bits, name)                                                                                        \
    std::uint##bits##_t __tsan_atomic##bits##_##name(volatile std::uint##bits##_t* at, std::uint##bits##_t value, \
                                                     int) {                                                       \
        access(at);                                                                                               \
        return __atomic_##name(at, value, __ATOMIC_SEQ_CST);                                                      \
    }
#define CHANGE_IF(bits, kind, isWeak)                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_##kind(volatile std::uint##bits##_t* at, std::uint##bits##_t* expected, \
                                                      std::uint##bits##_t value, int, int) {                           \
        access(at);                                                                                                    \
        return __atomic_compare_exchange_n(at, expected, value, isWeak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ? 1 : 0;   \
    }
#define ATOMIC(bits)                                                                                                \
    std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* at, int) {                   \
        access(at);                                                                                                 \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                               \
    }                                                                                                               \
    void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* at, std::uint##bits##_t value, int) {            \
        access(at);                                                                                                 \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                              \
    }                                                                                                               \
    std::uint##bits##_t __tsan_atomic##bits##_exchange(volatile std::uint##bits##_t* at, std::uint##bits##_t value, \
                                                       int) {                                                       \
        access(at);                                                                                                 \
        return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                                    \
    }                                                                                                               \
    CHANGE(bits, fetch_add)                                                                                         \
    CHANGE(bits, fetch_sub)                                                                                         \
    CHANGE(bits, fetch_and)                                                                                         \
    CHANGE(bits, fetch_or)                                                                                          \
    CHANGE(bits, fetch_xor)                                                                                         \
    CHANGE_IF(bits, strong, false)                                                                                  \
    CHANGE_IF(bits, weak, true)                                                                                     \
    std::uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                                 \
        volatile std::uint##bits##_t* at, std::uint##bits##_t expected, std::uint##bits##_t value, int, int) {      \
        __tsan_atomic##bits##_compare_exchange_strong(at, &expected, value, 0, 0);                                  \
        return expected;                                                                                            \
    }

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

// The linker gives the copies of nginx these instead of libc's.

void* __wrap_memcpy(void* to, const void* from, std::size_t size) {
    inWords(to, from, size, [=](std::size_t at, std::size_t count) {
        std::memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, count);
        return true;
    });
    return to;
}

void* __wrap_memset(void* to, int value, std::size_t size) {
    inWords(to, to, size, [=](std::size_t at, std::size_t count) {
        std::memset(static_cast<char*>(to) + at, value, count);
        return true;
    });
    return to;
}

int __wrap_memcmp(const void* one, const void* other, std::size_t size) {
    int difference = 0;
    inWords(one, other, size, [=, &difference](std::size_t at, std::size_t count) {
        difference = std::memcmp(static_cast<const char*>(one) + at, static_cast<const char*>(other) + at, count);
        return difference == 0;
    });
    return difference;
}
}
