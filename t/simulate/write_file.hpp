// Files that nginx reads: configurations and passwords.
#pragma once

#include <filesystem>
#include <string_view>

namespace simulate {

/// Throws std::system_error.
void writeFile(const std::filesystem::path& path, std::string_view text);

}  // namespace simulate
