// A file whose first line is a password. Pure, without nginx: for the configuration, the workers and the tool.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace sliding_log {

/// The beginning of such a file.
class PasswordFile {
  public:
    enum class Pipe { Ignored, Awaited };

    /// Reads it, again if it was read before. Blocks as long as the file system does, but for the writer of a pipe or
    /// FIFO only if that is awaited. Allocates nothing.
    void read(const char* path, Pipe pipe = Pipe::Ignored) noexcept;

    /// Empty: it could not be read, has an empty first line, or is too long. A newline at the end of the line, which
    /// editors add, is not part of the password.
    std::string_view password() const;

    /// Why it could not be read, an errno; 0: it was read.
    int error() const { return error_; }

    static constexpr std::string_view kExpected = "a password of up to 4095 bytes in its first line";

  private:
    std::array<char, 4096> content_{};
    std::size_t length_ = 0;
    int error_ = 0;
};

}  // namespace sliding_log
