#include "upgrade.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "text.hpp"

namespace sliding_log::tool {

namespace {

/// That of packaging/pinned, or another one, for tests.
std::string program() {
    const char* other = std::getenv("SLIDING_LOG_UPGRADE_WAITS");
    return other == nullptr ? "/usr/lib/sliding-log/upgrade-waits" : other;
}

/// What the program printed, and its exit status; -1 if it could not be run.
int output(const std::string& path, std::string& text) {
    std::FILE* pipe = popen(("exec '" + path + "' 2>/dev/null").c_str(), "re");
    if (pipe == nullptr) {
        return -1;
    }
    std::array<char, 256> part{};
    while (std::fgets(part.data(), part.size(), pipe) != nullptr) {
        text += part.data();
    }
    const int ended = pclose(pipe);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
}

}  // namespace

void inspectUpgrade(Findings& findings) {
    const std::string path = program();
    if (access(path.c_str(), X_OK) != 0) {
        return;
    }
    findings.of("packages of this machine");
    std::string text;
    const int status = output(path, text);
    if ((status != 0 && status != 1) || text.empty()) {
        findings.add("upgrade", Status::Warning, "could not be checked: the package manager does not know this nginx");
        return;
    }
    text.erase(text.find_last_not_of('\n') + 1);
    findings.add("upgrade", status == 0 ? Status::Ok : Status::Warning, printable(text));
}

}  // namespace sliding_log::tool
