#include "name_server.hpp"

#include <string>

namespace simulate {

namespace {

constexpr char kLifetime = 1;          // s: what is told may be used for so long
constexpr std::size_t kHead = 12;      // of a message (RFC 1035, 4.1.1)
constexpr std::size_t kTypeClass = 4;  // behind the name of a question

/// The name that begins there, with dots; `end`: behind it.
std::string nameAt(std::string_view query, std::size_t at, std::size_t& end) {
    std::string name;
    while (at < query.size() && query[at] != 0) {
        const auto length = static_cast<unsigned char>(query[at]);
        name.append(name.empty() ? "" : ".").append(query.substr(at + 1, length));
        at += 1 + length;
    }
    end = at + 1;
    return name;
}

}  // namespace

NameServer::NameServer(Kernel& kernel, Address address) : kernel_(kernel) {
    kernel.respond(address, *this);
}

/// To a query of one A record.
std::string NameServer::answerTo(std::string_view query) {
    std::size_t end = 0;
    const std::string name = nameAt(query, kHead, end);
    if (end + kTypeClass > query.size()) {
        return {};
    }
    const auto found = kernel_.names().find(name);
    const bool isKnown = found != kernel_.names().end();
    std::string answer(query.substr(0, 2));                         // its id
    answer.append("\x81", 1).append(isKnown ? "\x80" : "\x83", 1);  // an answer; no error, or no such name
    answer.append(std::string{0, 1, 0, static_cast<char>(isKnown), 0, 0, 0, 0});  // a question, and its answer
    answer.append(query.substr(kHead, end + kTypeClass - kHead));
    if (isKnown) {
        answer.append(std::string{static_cast<char>(0xc0), kHead, 0, 1, 0, 1, 0, 0, 0, kLifetime, 0, 4});  // A, IN
        for (const int shift : {24, 16, 8, 0}) {
            answer.push_back(static_cast<char>(found->second >> shift));
        }
    }
    return answer;
}

}  // namespace simulate
