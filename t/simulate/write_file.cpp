#include "write_file.hpp"

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace simulate {

void writeFile(const std::filesystem::path& path, std::string_view text) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    const bool isWritten = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (file == nullptr || std::fclose(file) != 0 || !isWritten) {
        throw std::system_error(errno, std::generic_category(), path);
    }
}

}  // namespace simulate
