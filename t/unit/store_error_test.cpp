#include "redis/store_error.hpp"

#include <gtest/gtest.h>

namespace sliding_log {
namespace {

TEST(StoreErrorTest, AForbiddenKeyIsDetectedInAllVersions) {
    EXPECT_TRUE(isOfKeys("NOPERM this user has no permissions to access one of the keys used as arguments"));
    EXPECT_TRUE(isOfKeys("NOPERM No permissions to access a key"));
}

TEST(StoreErrorTest, AForbiddenCommandIsNotAForbiddenKey) {
    for (const char* reply :
         {"NOPERM this user has no permissions to run the 'evalsha' command",
          "NOPERM User limiter has no permissions to run the 'evalsha' command",
          "NOPERM ACL failure in script: No permissions to access a key", "NOAUTH Authentication required.", "OK"}) {
        EXPECT_FALSE(isOfKeys(reply)) << reply;
    }
}

TEST(StoreErrorTest, ACommandForbiddenInScriptsIsDetected) {
    EXPECT_TRUE(isOfScripts("ERR ACL failure in script: User limiter has no permissions to run the 'zadd' command"));
    EXPECT_TRUE(isOfScripts("ERR The user executing the script can't run this command or subcommand"));
    EXPECT_FALSE(isOfScripts("ERR this is no log"));
}

TEST(StoreErrorTest, ALogThatTheCallHasEmptiedIsDetected) {
    EXPECT_TRUE(
        isOfEmptiedLog("ERR Script attempted to access a non local key in a cluster node script: 5d, on @user"));
    EXPECT_TRUE(isOfEmptiedLog("ERR Attempted to access a non local key in a cluster node"));
    EXPECT_FALSE(isOfEmptiedLog("ERR Script attempted to access keys that do not hash to the same slot"));
}

}  // namespace
}  // namespace sliding_log
