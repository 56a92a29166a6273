#include "dashboard/json.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>

namespace sliding_log {
namespace {

using namespace std::string_view_literals;

std::string textOf(std::string_view text) {
    Json out;
    out.text(text);
    return out.view();
}

TEST(Json, WritesObjectsAndArrays) {
    Json out;
    out.beginObject();
    out.name("empty").beginList().endList();
    out.name("list").beginList().number(0).number(std::numeric_limits<std::uint64_t>::max()).boolean(true).endList();
    out.name("object").beginObject().name("a").null().name("b").text("").endObject();
    out.name("last").boolean(false);
    out.endObject();
    EXPECT_EQ(out.view(),
              R"({"empty":[],"list":[0,18446744073709551615,true],"object":{"a":null,"b":""},"last":false})");
}

TEST(Json, EscapesSpecialCharacters) {
    EXPECT_EQ(textOf("a\"b\\c/"), R"("a\u0022b\u005cc/")");
    EXPECT_EQ(textOf("\0\n\x1f\x7f"sv), R"("\u0000\u000a\u001f\u007f")");
    EXPECT_EQ(textOf("<img onerror='x'>&"), R"("\u003cimg onerror=\u0027x\u0027\u003e\u0026")");
}

TEST(Json, KeepsUtf8) {
    for (const char* text : {"\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
                             "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "gr\xc3\xbc\xc3\x9f"}) {
        EXPECT_EQ(textOf(text), '"' + std::string(text) + '"');
    }
}

TEST(Json, ReplacesInvalidUtf8) {
    const std::string bad = "\xef\xbf\xbd";
    for (const char* byte : {"\x80", "\xbf", "\xc0", "\xc1", "\xf5", "\xff", "\xc2", "\xe0", "\xf0"}) {
        EXPECT_EQ(textOf(byte), '"' + bad + '"');
        EXPECT_EQ(textOf(std::string(byte) + "a"), '"' + bad + "a\"");
    }
    EXPECT_EQ(textOf("\xc0\xaf"), '"' + bad + bad + '"') << "overlong";
    EXPECT_EQ(textOf("\xe0\x9f\xbf"), '"' + bad + bad + bad + '"') << "overlong";
    EXPECT_EQ(textOf("\xed\xa0\x80"), '"' + bad + bad + bad + '"') << "a surrogate";
    EXPECT_EQ(textOf("\xf0\x8f\xbf\xbf"), '"' + bad + bad + bad + bad + '"') << "overlong";
    EXPECT_EQ(textOf("\xf4\x90\x80\x80"), '"' + bad + bad + bad + bad + '"') << "beyond U+10FFFF";
    EXPECT_EQ(textOf("\xe2\x82\""), '"' + bad + bad + "\\u0022\"") << "truncated before a quote";
}

}  // namespace
}  // namespace sliding_log
