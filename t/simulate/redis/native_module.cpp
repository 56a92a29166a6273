#include "native_module.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "module_api.hpp"

namespace {

std::uint64_t executed = 0;

}  // namespace

/// Called by the module in each block (-fsanitize-coverage=trace-pc).
extern "C" __attribute__((visibility("default"))) void __sanitizer_cov_trace_pc() {
    executed++;
}

namespace simulate {

std::uint64_t blocksOfNative() {
    return executed;
}

struct NativeModule::Copy {
    void* library;
};

namespace {

/// The dynamic linker loads a file once, and a name, so each copy is a file of its own, in memory, which stays open.
void* loadCopy(const std::string& path) {
    static std::map<std::string, std::string> libraries;
    std::string& bytes = libraries[path];
    if (bytes.empty()) {
        std::ifstream file(path, std::ios::binary);
        bytes.assign(std::istreambuf_iterator<char>(file), {});
    }
    const int file = memfd_create("native", MFD_CLOEXEC);
    std::size_t written = 0;
    while (file >= 0 && written < bytes.size()) {
        const ssize_t more = write(file, bytes.data() + written, bytes.size() - written);
        if (more <= 0) {
            break;
        }
        written += static_cast<std::size_t>(more);
    }
    void* library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* error = library == nullptr ? dlerror() : nullptr;
    if (library == nullptr) {
        throw std::runtime_error(path + ": " + (error == nullptr ? "cannot be loaded" : error));
    }
    return library;
}

/// Copies that no server uses now: a library stays loaded, and is used again.
std::vector<void*>& spares(const std::string& path) {
    static std::map<std::string, std::vector<void*>> all;
    return all[path];
}

}  // namespace

NativeModule::NativeModule(const std::string& path) : path_(path) {
    std::vector<void*>& spare = spares(path);
    if (spare.empty()) {
        spare.push_back(loadCopy(path));
    }
    copy_ = std::make_unique<Copy>(Copy{spare.back()});
    spare.pop_back();
}

NativeModule::~NativeModule() {
    spares(path_).push_back(copy_->library);
}

void NativeModule::load(Execution& execution) {
    const auto onLoad = reinterpret_cast<RedisModuleFunction>(dlsym(copy_->library, "RedisModule_OnLoad"));
    commands_.clear();
    ModuleCall call(execution, *this);
    if (onLoad == nullptr || onLoad(call.context(), nullptr, 0) != 0) {
        throw std::runtime_error(path_ + ": the module does not start");
    }
}

void NativeModule::decide(Execution& execution, Words words) {
    const auto found = commands_.find(words[0]);
    ModuleCall call(execution, *this);
    call.run(found->second, words);
}

}  // namespace simulate
