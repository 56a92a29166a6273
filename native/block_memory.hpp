// The string beside a log that remembers its blocks, where block= has several times. The head of lua/decide.lua tells
// its form.
#pragma once

#include <optional>
#include <vector>

#include "log.hpp"
#include "redis.hpp"

namespace sliding_log::native {

class BlockMemory {
  public:
    /// End, length and step of the latest block, then those of the one before; or nothing.
    using Blocks = std::vector<double>;

    BlockMemory(Redis& redis, const Clock& clock) : redis_(redis), clock_(clock) {}

    /// nullopt: the hash slot is on its way.
    std::optional<Blocks> read(const Log& log);

    /// `rest`: how long it is of use (ms).
    void write(const Log& log, const Blocks& blocks, double rest);

    /// What is to be written when a block begins now; its second number is the length of the block. nullopt: that is
    /// not possible, and the block lasts the first time.
    std::optional<Blocks> begin(const Log& log);

    /// The block until `until` has ended early. The block before it is remembered again.
    void forget(const Log& log, const Blocks& blocks, double until);

  private:
    Redis& redis_;
    const Clock& clock_;
};

}  // namespace sliding_log::native
