// A client of nginx, which is no process: a connection to a node.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "kernel.hpp"

namespace simulate {

/// What nginx answers.
struct Answer {
    int status = 0;  // 0: none, the connection has ended
    std::string source;
    std::string sources;  // by limit: "- NAME=SOURCE NAME=SOURCE"
    std::string name;
    std::int64_t retryAfter = 0;  // s; 0: none
};

class HttpClient : public Connection {
  public:
    using Answered = std::function<void(const Answer&)>;

    using Connection::Connection;
    virtual ~HttpClient() = default;

    /// It may be asked now.
    virtual bool isFree() const = 0;

    /// Asks for a path; `answered` is called once, unless the client leaves before. `number`: another one for each
    /// request.
    virtual void ask(std::string_view path, std::uint64_t number, Answered answered) = 0;

    /// It no longer waits for this request.
    virtual void leave(std::uint64_t number) = 0;
};

}  // namespace simulate
