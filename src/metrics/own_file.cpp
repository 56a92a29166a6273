#include "metrics/own_file.hpp"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

namespace sliding_log {

namespace {

struct OwnFile {
    std::string path;
    dev_t device;
    ino_t inode;
};

std::optional<OwnFile> gOwnFile;

}  // namespace

void rememberOwnFile() {
    Dl_info info{};
    struct stat file {};
    if (!gOwnFile && dladdr(&gOwnFile, &info) != 0 && info.dli_fname != nullptr && info.dli_fname[0] == '/' &&
        stat(info.dli_fname, &file) == 0) {
        gOwnFile = OwnFile{info.dli_fname, file.st_dev, file.st_ino};
    }
}

std::optional<bool> isOwnFileReplaced() {
    struct stat file {};
    if (!gOwnFile) {
        return std::nullopt;
    }
    if (stat(gOwnFile->path.c_str(), &file) != 0) {
        return errno == ENOENT ? std::optional(true) : std::nullopt;
    }
    return file.st_dev != gOwnFile->device || file.st_ino != gOwnFile->inode;
}

}  // namespace sliding_log
