#include "nginx_copy.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <utility>

namespace simulate {

namespace {

/// A file of its own, with a name of its own, since dlopen() recognises both: the descriptor stays open.
std::string copyOf(const std::string& file) {
    const int from = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    const int descriptor = memfd_create("nginx", MFD_CLOEXEC);
    if (from < 0 || descriptor < 0 || fstat(from, &status) != 0) {
        throw std::runtime_error("cannot copy " + file);
    }
    for (off_t done = 0; done < status.st_size;) {
        if (sendfile(descriptor, from, &done, static_cast<std::size_t>(status.st_size - done)) <= 0) {
            throw std::runtime_error("cannot copy " + file);
        }
    }
    close(from);
    return "/proc/self/fd/" + std::to_string(descriptor);
}

struct SymbolSearch {
    const void* inside;
    std::vector<std::pair<char*, std::size_t>> found;
};

/// The writable segments of the object that has this address, without what is read-only after relocation.
int findWritable(dl_phdr_info* info, std::size_t, void* data) {
    auto& search = *static_cast<SymbolSearch*>(data);
    const auto address = reinterpret_cast<ElfW(Addr)>(search.inside);
    bool isIt = false;
    ElfW(Addr) readOnlyEnd = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)& part = info->dlpi_phdr[i];
        const ElfW(Addr) begin = info->dlpi_addr + part.p_vaddr;
        isIt = isIt || (part.p_type == PT_LOAD && address >= begin && address < begin + part.p_memsz);
        readOnlyEnd = part.p_type == PT_GNU_RELRO ? begin + part.p_memsz : readOnlyEnd;
    }
    for (int i = 0; isIt && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)& part = info->dlpi_phdr[i];
        if (part.p_type == PT_LOAD && (part.p_flags & PF_W) != 0) {
            const ElfW(Addr) end = info->dlpi_addr + part.p_vaddr + part.p_memsz;
            const ElfW(Addr) begin = std::max(info->dlpi_addr + part.p_vaddr, readOnlyEnd);
            search.found.emplace_back(reinterpret_cast<char*>(begin), end - begin);
        }
    }
    return isIt ? 1 : 0;
}

}  // namespace

LoadedNginx::LoadedNginx(const std::string& file) {
    void* handle = dlopen(copyOf(file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        throw std::runtime_error(dlerror());
    }
    run = reinterpret_cast<decltype(run)>(dlsym(handle, "simulateWorker"));
    quit = reinterpret_cast<decltype(quit)>(dlsym(handle, "simulateQuit"));
    unlock = reinterpret_cast<decltype(unlock)>(dlsym(handle, "simulateUnlock"));
    inUse = reinterpret_cast<decltype(inUse)>(dlsym(handle, "simulateInUse"));
    if (run == nullptr || quit == nullptr || unlock == nullptr || inUse == nullptr) {
        throw std::runtime_error(file + " is not a copy of nginx for the simulation");
    }
    SymbolSearch search{reinterpret_cast<const void*>(run), {}};
    dl_iterate_phdr(findWritable, &search);
    globals = std::move(search.found);
    for (const auto& [begin, size] : globals) {
        firstValues.emplace_back(begin, size);
    }
}

NginxCopy::~NginxCopy() {
    loaded_->resident = loaded_->resident == this ? nullptr : loaded_->resident;
}

void NginxCopy::reset() {
    loaded_->resident = loaded_->resident == this ? nullptr : loaded_->resident;
    values_ = loaded_->firstValues;
}

void NginxCopy::enter() {
    NginxCopy* before = std::exchange(loaded_->resident, this);
    if (before == this) {
        return;
    }
    for (std::size_t i = 0; i < values_.size(); i++) {
        const auto& [begin, size] = loaded_->globals[i];
        if (before != nullptr) {
            std::memcpy(before->values_[i].data(), begin, size);
        }
        std::memcpy(begin, values_[i].data(), size);
    }
}

NginxCopies::NginxCopies(std::string file, std::size_t count)
    : file_(std::move(file)), shared_(count > 0 ? nullptr : std::make_shared<LoadedNginx>(file_)) {
    for (std::size_t i = 0; i < count; i++) {
        unused_.push_back(std::make_unique<NginxCopy>(std::make_shared<LoadedNginx>(file_)));
    }
}

std::unique_ptr<NginxCopy> NginxCopies::take() {
    if (unused_.empty()) {
        return std::make_unique<NginxCopy>(shared_ != nullptr ? shared_ : std::make_shared<LoadedNginx>(file_));
    }
    std::unique_ptr<NginxCopy> copy = std::move(unused_.back());
    unused_.pop_back();
    copy->reset();
    return copy;
}

/// What shares its memory with others is not kept: it takes no time to make.
void NginxCopies::giveBack(std::unique_ptr<NginxCopy> copy) {
    if (shared_ == nullptr) {
        unused_.push_back(std::move(copy));
    }
}

}  // namespace simulate
