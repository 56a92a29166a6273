// A server that refuses what it is asked, for a while.
#pragma once

#include <string>

#include "random.hpp"
#include "redis/server.hpp"

namespace simulate {

class Refusal {
  public:
    static Refusal draw(Random& random);

    /// For the trace.
    std::string text() const;

    void begin(Server& server) const { set(server, true); }
    void end(Server& server) const { set(server, false); }

  private:
    enum class Kind { Loading, Busy, NoMemory, NoWrites, Forbidden };

    Refusal(Kind kind, std::string what) : kind_(kind), what_(std::move(what)) {}

    void set(Server& server, bool refuses) const;

    Kind kind_;
    std::string what_;  // NoWrites: the reply; Forbidden: the command
};

}  // namespace simulate
