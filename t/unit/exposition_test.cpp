#include "metrics/exposition.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace sliding_log {
namespace {

/// The text, written into memory of the computed size.
std::string textOf(const std::function<void(Exposition&)>& write) {
    Exposition measure;
    write(measure);
    std::string text(measure.size(), '\0');
    Exposition out(text.data());
    write(out);
    EXPECT_LE(out.size(), measure.size());
    text.resize(out.size());
    return text;
}

TEST(Exposition, WritesAFamily) {
    EXPECT_EQ(textOf([](Exposition& out) { out.family("up", "gauge", "Is it?"); }),
              "# HELP up Is it?\n# TYPE up gauge\n");
}

TEST(Exposition, WritesSamples) {
    EXPECT_EQ(textOf([](Exposition& out) {
                  out.sample("bytes", {}, 0);
                  out.sample("calls", {{"a", "x"}, {"b", ""}}, std::numeric_limits<std::uint64_t>::max());
              }),
              "bytes 0\ncalls{a=\"x\",b=\"\"} 18446744073709551615\n");
}

TEST(Exposition, WritesNanosecondsAsSeconds) {
    const auto seconds = [](std::uint64_t ns) { return textOf([&](Exposition& out) { out.sampleNs("t", {}, ns); }); };
    EXPECT_EQ(seconds(0), "t 0.000000000\n");
    EXPECT_EQ(seconds(1'500'000'007), "t 1.500000007\n");
    EXPECT_EQ(seconds(std::numeric_limits<std::uint64_t>::max()), "t 18446744073.709551615\n");
}

TEST(Exposition, EscapesLabels) {
    EXPECT_EQ(textOf([](Exposition& out) {
                  out.sample("n", {{"l", "a\"b\\c\nd{}=,"}}, 1);
              }),
              "n{l=\"a\\\"b\\\\c\\nd{}=,\"} 1\n");
    EXPECT_EQ(textOf([](Exposition& out) { out.sample("n", {{"l", "\xff-\x80"}}, 1); }), "n{l=\"?-?\"} 1\n");
}

}  // namespace
}  // namespace sliding_log
