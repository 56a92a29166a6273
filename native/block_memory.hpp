// The string beside a log that remembers its blocks, if block= has several times. The head of lua/decide.lua describes
// it.
#pragma once

#include <optional>
#include <vector>

#include "log.hpp"
#include "redis.hpp"

namespace sliding_log::native {

class BlockMemory {
  public:
    /// End, length and step of the latest block, then those of the one before; or empty.
    using Blocks = std::vector<double>;

    BlockMemory(Redis& redis, const Clock& clock) : redis_(redis), clock_(clock) {}

    /// nullopt while the hash slot is migrated.
    std::optional<Blocks> read(const Log& log);

    /// `rest`: the time to live (ms), for which the string is of use.
    void write(const Log& log, const Blocks& blocks, double rest);

    /// What is to be written when a block begins now; the second number is the length of the block. nullopt if nothing
    /// can be written; the block then has the first length.
    std::optional<Blocks> begin(const Log& log);

    /// The block until `until` has ended early. The block before it is remembered again.
    void forget(const Log& log, const Blocks& blocks, double until);

  private:
    Redis& redis_;
    const Clock& clock_;
};

}  // namespace sliding_log::native
