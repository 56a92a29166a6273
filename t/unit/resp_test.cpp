#include "redis/resp.hpp"

#include <gtest/gtest.h>

namespace sliding_log {
namespace {

TEST(Command, IsAnArrayOfBulkStrings) {
    EXPECT_EQ(command({"AUTH", "", "p\r\nw"}), "*3\r\n$4\r\nAUTH\r\n$0\r\n\r\n$4\r\np\r\nw\r\n");
}

TEST(Command, KeepsEveryByteOfAnArgument) {
    std::string out;
    appendArgument(out, std::string_view("a\0b", 3));
    appendArgument(out, -1);
    EXPECT_EQ(out, std::string("$3\r\na\0b\r\n$2\r\n-1\r\n", 17));
}

}  // namespace
}  // namespace sliding_log
