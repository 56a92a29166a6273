#include "dashboard/page.hpp"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <string>

#include "embed.hpp"

EMBED(page_head, EMBEDDED_FILE("page_head.html"));
EMBED(page_style, EMBEDDED_FILE("page.css"));
EMBED(page_body, EMBEDDED_FILE("page_body.html"));
EMBED(page_script, EMBEDDED_FILE("page.js"));

namespace sliding_log {

namespace {

/// The source of a script or style in a policy: 'sha256-' and the digest in base64.
std::string sourceOf(std::string_view text) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
    unsigned char base64[4 * ((sizeof digest + 2) / 3) + 1];
    const int length = EVP_EncodeBlock(base64, digest, sizeof digest);
    return "'sha256-" + std::string(reinterpret_cast<const char*>(base64), static_cast<std::size_t>(length)) + "'";
}

}  // namespace

std::string_view page() {
    static const std::string text = std::string(EMBEDDED(page_head)) + "<style>" + std::string(EMBEDDED(page_style)) +
                                    "</style>\n" + std::string(EMBEDDED(page_body)) + "<script>" +
                                    std::string(EMBEDDED(page_script)) + "</script>\n";
    return text;
}

std::string_view pagePolicy() {
    static const std::string text = "default-src 'none'; script-src " + sourceOf(EMBEDDED(page_script)) +
                                    "; style-src " + sourceOf(EMBEDDED(page_style)) +
                                    "; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    return text;
}

}  // namespace sliding_log
