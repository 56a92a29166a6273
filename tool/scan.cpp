#include "scan.hpp"

#include <chrono>

#include "failure.hpp"
#include "interrupt.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr const char* kBatch = "250";  // SCAN's COUNT: Redis spends some 100 us on it

}  // namespace

bool scan(Store& store, const std::string& pattern, const ScanBudget& budget,
          const std::function<void(const Endpoint& where, const std::vector<std::string>& keys)>& batch) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(budget.mostMs);
    const std::vector<Endpoint> masters = store.masters();
    for (const Endpoint& master : masters) {
        std::string cursor = "0";
        do {
            if (budget.mostMs > 0 && Clock::now() > end) {
                return false;
            }
            const Reply reply = store.at(master).ask({"SCAN", cursor, "MATCH", pattern, "COUNT", kBatch});
            if (reply.isError()) {
                throw CouldNotAsk(printable(nameOf(master)) + ": SCAN answered: " + printable(reply.text()));
            }
            cursor = reply[0].text();
            std::vector<std::string> keys;
            for (std::size_t i = 0; i < reply[1].size(); i++) {
                keys.emplace_back(reply[1][i].text());
            }
            if (!keys.empty()) {
                batch(master, keys);
            }
            pauseFor(cursor == "0" ? 0 : static_cast<int>(budget.pauseMs));
        } while (cursor != "0" && !cursor.empty());
    }
    return true;
}

}  // namespace sliding_log::tool
