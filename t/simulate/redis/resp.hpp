// Replies in RESP2: written as text, and read again by those who call commands inside the server, as Redis does itself.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace simulate {

inline void appendHead(std::string& out, char kind, std::int64_t number) {
    char line[24] = {kind};
    char* end = std::to_chars(line + 1, line + 21, number).ptr;
    *end++ = '\r';
    *end++ = '\n';
    out.append(line, static_cast<std::size_t>(end - line));
}

inline void appendInteger(std::string& out, std::int64_t number) {
    appendHead(out, ':', number);
}

inline void appendArray(std::string& out, std::size_t elements) {
    appendHead(out, '*', static_cast<std::int64_t>(elements));
}

inline void appendBulk(std::string& out, std::string_view text) {
    appendHead(out, '$', static_cast<std::int64_t>(text.size()));
    out.append(text).append("\r\n");
}

inline void appendNil(std::string& out) {
    out.append("$-1\r\n");
}

inline void appendStatus(std::string& out, std::string_view text) {
    out.append("+").append(text).append("\r\n");
}

/// `text` begins with the kind of the error: "ERR …". A line of it has no ends of lines.
inline void appendError(std::string& out, std::string_view text) {
    out.append("-");
    for (const char c : text) {
        out.push_back(c == '\r' || c == '\n' ? ' ' : c);
    }
    out.append("\r\n");
}

/// A score, as Redis 7.0 writes it.
void appendScore(std::string& out, double score);
std::string scoreText(double score);

/// The head of a reply, and where what follows begins. The text is whole.
struct Head {
    char kind;            // '+' '-' ':' '$' '*'
    std::int64_t number;  // of ':'; the length of '$' and '*', -1: nil
    std::string_view line;
    std::size_t next;  // behind the line
};

inline Head headAt(std::string_view reply, std::size_t at) {
    const std::size_t end = reply.find('\r', at);
    Head head{.kind = reply[at], .number = 0, .line = reply.substr(at + 1, end - at - 1), .next = end + 2};
    if (head.kind != '+' && head.kind != '-') {
        std::from_chars(head.line.data(), head.line.data() + head.line.size(), head.number);
    }
    return head;
}

/// Behind the element that begins there.
inline std::size_t endOfElement(std::string_view reply, std::size_t at) {
    const Head head = headAt(reply, at);
    if (head.kind == '$') {
        return head.number < 0 ? head.next : head.next + static_cast<std::size_t>(head.number) + 2;
    }
    std::size_t next = head.next;
    for (std::int64_t i = 0; head.kind == '*' && i < head.number; i++) {
        next = endOfElement(reply, next);
    }
    return next;
}

}  // namespace simulate
