// A server of the DNS, which tells what the names of the kernel mean now.
#pragma once

#include <cstdint>

#include "kernel.hpp"

namespace simulate {

class NameServer final : Responder {
  public:
    /// What it tells may be used for so long (s).
    static constexpr std::uint8_t kLifetime = 1;

    NameServer(Kernel& kernel, Address address);

  private:
    std::string answerTo(std::string_view query) override;

    Kernel& kernel_;
};

}  // namespace simulate
