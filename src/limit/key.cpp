#include "limit/key.hpp"

#include <openssl/sha.h>

#include <algorithm>
#include <array>

#include "limit/append.hpp"

namespace sliding_log {

namespace {

constexpr std::array<bool, 256> kPlain = [] {
    std::array<bool, 256> plain{};
    for (char c : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/@-")) {
        plain[static_cast<unsigned char>(c)] = true;
    }
    return plain;
}();

}  // namespace

bool isPlainValue(std::string_view value) {
    return value.size() <= kLongestPlainValue && !value.starts_with(kHashMark) &&
           std::all_of(value.begin(), value.end(), [](char c) { return kPlain[static_cast<unsigned char>(c)]; });
}

std::size_t writeLogKey(char* out, std::string_view prefix, std::string_view name, std::string_view value,
                        Secrecy secrecy) {
    char* end = append(append(append(out, prefix), name), ":{");
    if (secrecy == Secrecy::Open && isPlainValue(value)) {
        end = append(end, value);
    } else {
        writeHashed(end, value);
        end += kHashedLength;
    }
    *end++ = '}';
    return static_cast<std::size_t>(end - out);
}

void writeHashed(char* out, std::string_view value) {
    writeSha1Hex(append(out, kHashMark), value);
}

/// SHA1() of OpenSSL 3 looks up the algorithm by its name, allocates memory, and may fail. The deprecated functions do
/// not, and take a quarter of the instructions. OPENSSL_SUPPRESS_DEPRECATED would have to precede OpenSSL's headers,
/// also those of the files that are compiled together with this one.
void writeSha1Hex(char* out, std::string_view text) {
    std::array<unsigned char, SHA_DIGEST_LENGTH> digest;
    SHA_CTX hash;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    SHA1_Init(&hash);
    SHA1_Update(&hash, text.data(), text.size());
    SHA1_Final(digest.data(), &hash);
#pragma GCC diagnostic pop
    for (unsigned char byte : digest) {
        *out++ = "0123456789abcdef"[byte >> 4];
        *out++ = "0123456789abcdef"[byte & 15];
    }
}

}  // namespace sliding_log
