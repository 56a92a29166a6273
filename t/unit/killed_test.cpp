// A process is killed at any instruction while it changes a log that others share: what it leaves is marked.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <new>
#include <vector>

#include "local/decide.hpp"
#include "local/log_state.hpp"

namespace sliding_log {
namespace {

constexpr std::size_t kCells = 4;

/// What other processes see of a log.
struct Shared {
    LogState state;
    std::uint64_t now;
    std::array<std::uint8_t, 64> place;
    alignas(Cell) std::array<std::array<char, kCellBytes>, kCells> cells;
    std::size_t givenCells;
};

Check checkOf(Algorithm algorithm) {
    Check check;
    check.algorithm = algorithm;
    check.limit = 1000;
    check.cap = 2000;
    check.windowMs = 100'000;
    check.burst = 1000;
    check.cost = 3;
    return check;
}

bool decideOnce(Shared& shared, const Check& check) {
    LogState* const states[] = {&shared.state};
    Verdict verdict;
    std::uint64_t loggedMs = 0;
    shared.now += 7;
    return decide(std::span(&check, 1), states, std::span(&verdict, 1), shared.now, "name", loggedMs,
                  [&](LogState& state, std::size_t cells) {
                      for (; cells > 0; cells--) {
                          state.give(*new (shared.cells.at(shared.givenCells++).data()) Cell());
                      }
                      return true;
                  });
}

class KilledTest : public testing::TestWithParam<Algorithm> {};

TEST_P(KilledTest, ALogIsWholeOrMarkedAtEachInstruction) {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const Check check = checkOf(GetParam());
    auto& shared = *static_cast<Shared*>(memory);
    shared.now = 1'000'000;
    new (&shared.state) LogState(check, shared.now, shared.place);
    for (int i = 0; i < 30; i++) {  // nearly more than fits into the place
        ASSERT_TRUE(decideOnce(shared, check));
    }
    ASSERT_EQ(shared.givenCells, 0U);

    const pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        raise(SIGSTOP);
        shared.state.beginChange();
        for (int i = 0; i < 4; i++) {
            decideOnce(shared, check);
        }
        shared.state.endChange();
        _exit(0);
    }
    std::vector<std::vector<char>> whole;
    std::size_t marked = 0;
    int status = 0;
    for (waitpid(child, &status, 0); WIFSTOPPED(status); waitpid(child, &status, 0)) {
        if (shared.state.wasLeft()) {
            marked++;
        } else {
            const auto* bytes = static_cast<const char*>(memory);
            if (whole.empty() || std::memcmp(whole.back().data(), bytes, sizeof(Shared)) != 0) {
                whole.emplace_back(bytes, bytes + sizeof(Shared));
            }
        }
        if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) {
            kill(child, SIGKILL);
            waitpid(child, nullptr, 0);
            GTEST_SKIP() << "a process may not be traced here";
        }
    }
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(whole.size(), 2U) << "without a mark it is as before, or as afterwards";
    EXPECT_GT(marked, 1000U);
    munmap(memory, sizeof(Shared));
}

INSTANTIATE_TEST_SUITE_P(All, KilledTest, testing::Values(Algorithm::Log, Algorithm::Counter));

}  // namespace
}  // namespace sliding_log
