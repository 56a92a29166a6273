// Commands as clients of a Redis or a Sentinel send them.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace simulate {

/// The words of the first command of `bytes`, and its length in `used`; none: it is not complete.
std::vector<std::string_view> firstCommand(std::string_view bytes, std::size_t& used);

}  // namespace simulate
