// How much a test of random operations does.
#pragma once

#include <cstdlib>

namespace sliding_log {

/// So many, or with TEST_BRIEF a fifth.
inline int operations(int whole) {
    return std::getenv("TEST_BRIEF") == nullptr ? whole : (whole + 4) / 5;
}

}  // namespace sliding_log
