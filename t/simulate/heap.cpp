// The linker gives the copies of nginx these functions instead of those of libc and libstdc++ (Makefile).
#include "heap.hpp"

#include <cstdlib>
#include <new>

#include "process.hpp"

namespace {

void* took(void* piece, std::size_t bytes) {
    if (simulate::current() != nullptr) {
        simulate::current()->heap.took(piece, bytes);
    }
    return piece;
}

void* freed(void* piece) {
    if (simulate::current() != nullptr) {
        simulate::current()->heap.freed(piece);
    }
    return piece;
}

}  // namespace

extern "C" {

void* __wrap_malloc(std::size_t bytes) {
    return took(std::malloc(bytes), bytes);
}

int __wrap_posix_memalign(void** piece, std::size_t alignment, std::size_t bytes) {
    const int error = posix_memalign(piece, alignment, bytes);
    if (error == 0) {
        took(*piece, bytes);
    }
    return error;
}

void __wrap_free(void* piece) {
    std::free(freed(piece));
}

// operator new(bytes), new (std::nothrow)(bytes), delete(piece), and delete(piece, bytes), which clang does without

void* __wrap__Znwm(std::size_t bytes) {
    return took(::operator new(bytes), bytes);
}

void* __wrap__ZnwmRKSt9nothrow_t(std::size_t bytes, const std::nothrow_t& nothrow) {
    return took(::operator new(bytes, nothrow), bytes);
}

void __wrap__ZdlPv(void* piece) {
    ::operator delete(freed(piece));
}

void __wrap__ZdlPvm(void* piece, std::size_t) {
    __wrap__ZdlPv(piece);
}
}
