// The findings of doctor.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "failure.hpp"
#include "reply.hpp"

namespace sliding_log::tool {

class Findings {
  public:
    /// Findings that are added from now on are about this server.
    void of(std::string server) { server_ = std::move(server); }

    /// `text` must be printable.
    void add(std::string_view check, Status status, std::string text);

    /// Redis refused to tell, usually because a right is missing.
    void hidden(std::string_view check, ReplyView refusal);

    Status worst() const;
    std::string human() const;
    std::string json() const;

  private:
    struct Finding {
        std::string server;
        std::string check;
        Status status;
        std::string text;
    };
    std::string server_;
    std::vector<Finding> all_;
};

}  // namespace sliding_log::tool
