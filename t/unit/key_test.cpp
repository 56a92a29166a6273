#include "limit/key.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sliding_log {
namespace {

std::string logKey(std::string_view prefix, std::string_view name, std::string_view value,
                   Secrecy secrecy = Secrecy::Open) {
    std::string out(logKeyCapacity(prefix, name), '?');
    out.resize(writeLogKey(out.data(), prefix, name, value, secrecy));
    return out;
}

std::string sha1(std::string_view text) {
    std::string digest(40, '?');
    writeSha1Hex(digest.data(), text);
    return digest;
}

TEST(LogKey, IsThePrefixTheNameAndTheValueAsHashTag) {
    EXPECT_EQ(logKey("rl:sliding:", "api", "acct_42"), "rl:sliding:api:{acct_42}");
    EXPECT_EQ(logKey("", "a", "2001:db8::1"), "a:{2001:db8::1}");
}

TEST(LogKey, KeepsPlainBytesOnly) {
    const std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/@-";
    EXPECT_TRUE(isPlainValue(plain));
    for (int byte = 0; byte < 256; byte++) {
        const char c = static_cast<char>(byte);
        EXPECT_EQ(isPlainValue(std::string_view(&c, 1)), plain.find(c) != plain.npos) << byte;
    }
}

TEST(LogKey, HashesValuesWithOtherBytes) {
    // sha1("a b"), as computed by sha1sum
    EXPECT_EQ(logKey("p:", "n", "a b"), "p:n:{sha1-7dbde93504122a707f849f2c12bdd9de71b41929}");
    EXPECT_EQ(logKey("p:", "n", "}{").size(), std::string_view("p:n:{}").size() + kHashedLength);
    EXPECT_NE(logKey("p:", "n", std::string_view("a\0b", 3)), logKey("p:", "n", std::string_view("a\0c", 3)));
}

TEST(LogKey, HashesValuesLongerThan128Bytes) {
    const std::string longest(128, 'x');
    EXPECT_EQ(logKey("p:", "n", longest), "p:n:{" + longest + "}");
    EXPECT_EQ(logKey("p:", "n", longest + "x").substr(0, 10), "p:n:{sha1-");
    EXPECT_EQ(logKey("p:", "n", std::string(30000, 'x')).size(), 6 + kHashedLength);
}

TEST(LogKey, HashesValuesThatLookLikeAHash) {
    const std::string hash = "sha1-7dbde93504122a707f849f2c12bdd9de71b41929";  // of "a b"
    EXPECT_NE(logKey("p:", "n", hash), logKey("p:", "n", "a b"));
    EXPECT_EQ(logKey("p:", "n", hash), "p:n:{sha1-" + sha1(hash) + "}");
    EXPECT_EQ(logKey("p:", "n", "sha1-"), "p:n:{sha1-" + sha1("sha1-") + "}");
    EXPECT_EQ(logKey("p:", "n", "sha1"), "p:n:{sha1}");
    EXPECT_EQ(logKey("p:", "n", "SHA1-x"), "p:n:{SHA1-x}");
}

TEST(LogKey, HashesEverySecret) {
    for (const std::string& secret : {std::string("acct_42"), std::string("a b"), std::string(300, 'x'),
                                      std::string("sha1-7dbde93504122a707f849f2c12bdd9de71b41929")}) {
        EXPECT_EQ(logKey("p:", "n", secret, Secrecy::Secret), "p:n:{sha1-" + sha1(secret) + "}");
    }
}

TEST(ShownValue, HasEightDigitsOfASecret) {
    const std::string_view hash = "sha1-7dbde93504122a707f849f2c12bdd9de71b41929";
    EXPECT_EQ(shownValue(hash, Secrecy::Secret), "sha1-7dbde935");
    EXPECT_EQ(shownValue(hash, Secrecy::Open), hash);
    EXPECT_EQ(shownValue("acct_42", Secrecy::Open), "acct_42");
}

TEST(Sha1Hex, IsTheKnownDigest) {
    EXPECT_EQ(sha1("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");  // FIPS 180-2, A.1
    EXPECT_EQ(sha1(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
}

}  // namespace
}  // namespace sliding_log
