#include "recycler.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sliding_log {
namespace {

/// Counts its instances.
struct Counted {
    Counted() { alive++; }
    ~Counted() { alive--; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

    std::string text;
    static inline int alive = 0;
};

TEST(Recycler, ReusesReturnedObjects) {
    Recycler<Counted> recycler;
    Counted& first = recycler.take();
    first.text = "first";
    recycler.recycle(first);
    EXPECT_EQ(&recycler.take(), &first);
    EXPECT_EQ(Counted::alive, 1);
}

TEST(Recycler, FreesUnusedObjectsGradually) {
    Recycler<Counted> recycler;
    std::vector<Counted*> used;
    for (int i = 0; i < 20'000; i++) {
        used.push_back(&recycler.take());
    }
    for (Counted* each : used) {
        recycler.recycle(*each);
    }
    for (int i = 0; i < 20 && Counted::alive > 0; i++) {
        const auto before = static_cast<std::size_t>(Counted::alive);
        const std::size_t freed = recycler.freeUnused();
        EXPECT_EQ(freed, before - static_cast<std::size_t>(Counted::alive));
        EXPECT_GT(freed, 0);
        EXPECT_LE(freed, 2048);
    }
    EXPECT_EQ(Counted::alive, 0);
    EXPECT_EQ(recycler.freeUnused(), 0);
}

TEST(Recycler, KeepsObjectsInUse) {
    std::mt19937 random(1);
    Recycler<Counted> recycler;
    std::vector<std::pair<Counted*, std::string>> used;
    for (int i = 0; i < 50'000; i++) {
        const auto kind = random() % 1000;
        if (kind == 0) {
            recycler.freeUnused();
            EXPECT_EQ(static_cast<std::size_t>(Counted::alive), used.size());
        } else if (kind % 2 == 0 || used.empty()) {
            used.emplace_back(&recycler.take(), std::to_string(i));
            used.back().first->text = used.back().second;
        } else {
            std::swap(used[random() % used.size()], used.back());
            EXPECT_EQ(used.back().first->text, used.back().second);
            recycler.recycle(*used.back().first);
            used.pop_back();
        }
    }
}

}  // namespace
}  // namespace sliding_log
