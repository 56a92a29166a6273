#include "list.hpp"

#include <gtest/gtest.h>

namespace sliding_log {
namespace {

struct First;
struct Second;

struct Element : ListHook<First>, ListHook<Second> {};

TEST(List, KeepsOrderWhenAnElementIsRemoved) {
    Element a, b, c;
    List<Element, First> list;
    list.pushBack(a);
    list.pushBack(b);
    list.pushBack(c);
    int visited = 0;
    list.forEach([&](Element&) { visited++; });
    EXPECT_EQ(visited, 3);
    static_cast<ListHook<First>&>(b).unlink();
    EXPECT_EQ(list.popFront(), &a);
    EXPECT_EQ(list.popFront(), &c);
    EXPECT_EQ(list.popFront(), nullptr);
    EXPECT_TRUE(list.isEmpty());
}

struct Number : ListHook<First> {
    explicit Number(int n) : value(n) {}
    int value;
};

TEST(List, InsertsInOrderAndAfterEqualElements) {
    Number numbers[] = {Number(2), Number(5), Number(1), Number(5), Number(3)};
    List<Number, First> list;
    for (Number& number : numbers) {
        list.insertSorted(number, [](const Number& a, const Number& b) { return a.value < b.value; });
    }
    EXPECT_EQ(list.popFront(), &numbers[2]);
    EXPECT_EQ(list.popFront(), &numbers[0]);
    EXPECT_EQ(list.popFront(), &numbers[4]);
    EXPECT_EQ(list.popFront(), &numbers[1]);
    EXPECT_EQ(list.popFront(), &numbers[3]);
    EXPECT_TRUE(list.isEmpty());
}

TEST(List, HooksOfTwoListsAreIndependent) {
    Element a;
    List<Element, First> one;
    List<Element, Second> two;
    one.pushBack(a);
    two.pushBack(a);
    static_cast<ListHook<First>&>(a).unlink();
    static_cast<ListHook<First>&>(a).unlink();  // a second unlink has no effect
    EXPECT_TRUE(one.isEmpty());
    EXPECT_EQ(two.popFront(), &a);
}

}  // namespace
}  // namespace sliding_log
