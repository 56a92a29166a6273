#include "redis/password_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "redis/background_read.hpp"

namespace sliding_log {
namespace {

class PasswordFiles : public ::testing::Test {
  protected:
    std::string path() const { return directory_ / "password"; }

    PasswordFile containing(const std::string& content) const {
        std::ofstream(path(), std::ios::binary) << content;
        PasswordFile file;
        file.read(path().c_str());
        return file;
    }

    void TearDown() override { std::filesystem::remove_all(directory_); }

    std::filesystem::path directory_ = [] {
        std::string name = std::filesystem::temp_directory_path() / "sliding-log-XXXXXX";
        return std::filesystem::path(mkdtemp(name.data()));
    }();
};

TEST_F(PasswordFiles, TheFirstLineIsThePassword) {
    EXPECT_EQ(containing("secret").password(), "secret");
    EXPECT_EQ(containing("secret\n").password(), "secret");
    EXPECT_EQ(containing("secret\r\nmore\n").password(), "secret");
    EXPECT_EQ(containing(" s p \t\n").password(), " s p \t");
    EXPECT_EQ(containing(std::string(4095, 'x')).password(), std::string(4095, 'x'));
}

TEST_F(PasswordFiles, WithoutAPassword) {
    EXPECT_EQ(containing("").password(), "");
    EXPECT_EQ(containing("\nsecret\n").password(), "");
    EXPECT_EQ(containing(std::string(4096, 'x')).password(), "");
    EXPECT_EQ(containing("").error(), 0);
}

TEST_F(PasswordFiles, ThatCannotBeRead) {
    PasswordFile file = containing("secret");
    file.read((path() + "/none").c_str());
    EXPECT_EQ(file.error(), ENOTDIR);
    EXPECT_EQ(file.password(), "");
    file.read("/nowhere/password");
    EXPECT_EQ(file.error(), ENOENT);
    file.read("/tmp");
    EXPECT_EQ(file.error(), EISDIR);
    file.read(path().c_str());
    EXPECT_EQ(file.password(), "secret");
}

TEST_F(PasswordFiles, AFifoWithoutAWriterDoesNotBlock) {
    ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
    PasswordFile file;
    file.read(path().c_str());
    EXPECT_EQ(file.password(), "");
}

TEST_F(PasswordFiles, AreReadInTheBackground) {
    containing("secret\n");
    const std::string where = path();
    BackgroundRead read;
    PasswordFile file;
    EXPECT_FALSE(read.take(file));
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(read.begin(where.c_str()), 0);
        EXPECT_TRUE(read.isUnderWay());
        while (!read.take(file)) {
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        EXPECT_FALSE(read.isUnderWay());
        EXPECT_EQ(file.password(), "secret");
    }
}

TEST_F(PasswordFiles, AReadMayOutliveItsReader) {
    static const std::string where = "/proc/self/status";
    for (int i = 0; i < 100; i++) {
        BackgroundRead read;
        ASSERT_EQ(read.begin(where.c_str()), 0);
    }
}

}  // namespace
}  // namespace sliding_log
