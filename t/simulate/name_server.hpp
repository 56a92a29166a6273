// A server of the DNS, which tells what the names of the kernel mean now.
#pragma once

#include "kernel.hpp"

namespace simulate {

class NameServer final : Responder {
  public:
    NameServer(Kernel& kernel, Address address);

  private:
    std::string answerTo(std::string_view query) override;

    Kernel& kernel_;
};

}  // namespace simulate
