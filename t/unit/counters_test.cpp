#include "metrics/counters.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace sliding_log {
namespace {

/// Workers count while one of them tells Prometheus.
TEST(Counters, LoseNothingOfManyAtOnce) {
    NodeCounters node;
    LimitCounters limit;
    constexpr std::size_t kThreads = 3;
    constexpr int kEach = 5'000;
    std::vector<std::thread> workers;
    for (std::size_t worker = 0; worker < kThreads; worker++) {
        workers.emplace_back([&, worker] {
            for (int i = 0; i < kEach; i++) {
                node.sent(2);
                node.failed(StoreError::Timeout);
                node.latency.observe(200'000);
                node.see(worker, i % 2 == 0 ? Seen::Down : Seen::Up);
                limit.of(Result::Passed, Source::Redis).add();
                limit.touch(static_cast<std::uint64_t>(i));
            }
        });
    }
    for (int i = 0; i < 1000; i++) {
        const auto counts = node.latency.cumulated();
        EXPECT_EQ(counts[0], 0U);
        EXPECT_LE(counts.back(), kThreads * kEach);
        EXPECT_LE(node.seenBy(kThreads), Seen::Down);
        EXPECT_LE(limit.touchedMs.load(), static_cast<std::uint64_t>(kEach));
    }
    for (std::thread& worker : workers) {
        worker.join();
    }
    EXPECT_EQ(node.calls.get(), kThreads * kEach);
    EXPECT_EQ(node.requests.get(), kThreads * kEach * 2);
    EXPECT_EQ(node.errors[static_cast<std::size_t>(StoreError::Timeout)].get(), kThreads * kEach);
    EXPECT_EQ(node.latency.cumulated()[1], kThreads * kEach);
    EXPECT_EQ(node.latency.sumNs(), kThreads * kEach * 200'000ULL);
    EXPECT_EQ(node.seenBy(kThreads), Seen::Up);
    EXPECT_EQ(limit.of(Result::Passed, Source::Redis).get(), kThreads * kEach);
}

/// Counters of an unused owner are reused for another one while a worker still looks for owners.
TEST(Counters, BeginAnew) {
    NodeCounters node;
    node.names.set("store", "10.0.0.1:6379");
    node.touch(1);
    node.sent(1);
    node.failed(StoreError::Down);
    node.latency.observe(1);
    node.see(3, Seen::Down);
    node.health.memoryUsed = 7;
    std::thread other([&] {
        while (node.touchedMs.load(std::memory_order_acquire) != 700'000) {
        }
        EXPECT_EQ(node.names.second(), "10.0.0.2:6379");
    });
    node.clear();
    node.names.set("store", "10.0.0.2:6379");
    node.touch(700'000);
    other.join();
    EXPECT_EQ(node.calls.get() + node.requests.get() + node.latency.sumNs() + node.latency.cumulated().back(), 0U);
    EXPECT_EQ(node.errors[static_cast<std::size_t>(StoreError::Down)].get(), 0U);
    EXPECT_EQ(node.seenBy(NodeCounters::kMostWorkers), Seen::Not);
    EXPECT_EQ(node.health.memoryUsed.load(), 0U);

    LimitCounters limit;
    limit.of(Result::Rejected, Source::Cache).add();
    limit.nearLimit.add();
    limit.clear();
    EXPECT_EQ(limit.of(Result::Rejected, Source::Cache).get() + limit.nearLimit.get(), 0U);
}

}  // namespace
}  // namespace sliding_log
