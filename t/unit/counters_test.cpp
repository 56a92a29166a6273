#include "metrics/counters.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace sliding_log {
namespace {

/// Workers count while one worker writes the metrics.
TEST(Counters, AreCountedConcurrentlyWithoutLoss) {
    ServerCounters server;
    LimitCounters limit;
    constexpr std::size_t kThreads = 3;
    constexpr int kEach = 5'000;
    std::vector<std::thread> workers;
    for (std::size_t worker = 0; worker < kThreads; worker++) {
        workers.emplace_back([&, worker] {
            for (int i = 0; i < kEach; i++) {
                server.sent(2);
                server.failed(StoreError::Timeout);
                server.latency.observe(200'000);
                server.report(worker, i % 2 == 0 ? Reachability::Down : Reachability::Up);
                limit.of(Result::Passed, Source::Redis).add();
                limit.touch(static_cast<std::uint64_t>(i));
            }
        });
    }
    for (int i = 0; i < 1000; i++) {
        const auto counts = server.latency.cumulated();
        EXPECT_EQ(counts[0], 0U);
        EXPECT_LE(counts.back(), kThreads * kEach);
        EXPECT_LE(server.reachabilityBy(kThreads), Reachability::Down);
        EXPECT_LE(limit.touchedMs.load(), static_cast<std::uint64_t>(kEach));
    }
    for (std::thread& worker : workers) {
        worker.join();
    }
    EXPECT_EQ(server.calls.get(), kThreads * kEach);
    EXPECT_EQ(server.requests.get(), kThreads * kEach * 2);
    EXPECT_EQ(server.errors[static_cast<std::size_t>(StoreError::Timeout)].get(), kThreads * kEach);
    EXPECT_EQ(server.latency.cumulated()[1], kThreads * kEach);
    EXPECT_EQ(server.latency.sumNs(), kThreads * kEach * 200'000ULL);
    EXPECT_EQ(server.reachabilityBy(kThreads), Reachability::Up);
    EXPECT_EQ(limit.of(Result::Passed, Source::Redis).get(), kThreads * kEach);
}

/// Counters of an unused owner are reused for another one while a worker still looks for owners.
TEST(Counters, StartAtZeroForANewOwner) {
    ServerCounters server;
    server.names.set("store", "10.0.0.1:6379");
    server.touch(1);
    server.sent(1);
    server.failed(StoreError::Down);
    server.latency.observe(1);
    server.report(3, Reachability::Down);
    server.health.memoryUsed = 7;
    std::thread other([&] {
        while (server.touchedMs.load(std::memory_order_acquire) != 700'000) {
        }
        EXPECT_EQ(server.names.second(), "10.0.0.2:6379");
    });
    server.clear();
    server.names.set("store", "10.0.0.2:6379");
    server.touch(700'000);
    other.join();
    EXPECT_EQ(server.calls.get() + server.requests.get() + server.latency.sumNs() + server.latency.cumulated().back(),
              0U);
    EXPECT_EQ(server.errors[static_cast<std::size_t>(StoreError::Down)].get(), 0U);
    EXPECT_EQ(server.reachabilityBy(ServerCounters::kMostWorkers), Reachability::Unknown);
    EXPECT_EQ(server.health.memoryUsed.load(), 0U);

    LimitCounters limit;
    limit.of(Result::Rejected, Source::Cache).add();
    limit.nearLimit.add();
    limit.newLogs.add();
    limit.clear();
    EXPECT_EQ(limit.of(Result::Rejected, Source::Cache).get() + limit.nearLimit.get() + limit.newLogs.get(), 0U);
}

}  // namespace
}  // namespace sliding_log
