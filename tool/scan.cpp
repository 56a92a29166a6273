#include "scan.hpp"

#include <chrono>
#include <cstdio>

#include "forms.hpp"
#include "interrupt.hpp"
#include "target.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr const char* kCount = "250";  // of SCAN, which takes Redis about 100 us

using Clock = std::chrono::steady_clock;
using OnKeys = std::function<void(const Endpoint& where, const std::vector<std::string>& keys)>;

/// False if the time was up.
bool scanOne(Store& store, const Endpoint& master, const std::string& pattern, Clock::time_point end,
             std::int64_t pauseMs, const OnKeys& onKeys) {
    std::string cursor = "0";
    do {
        if (Clock::now() > end) {
            return false;
        }
        const Reply reply = store.at(master).ask({"SCAN", cursor, "MATCH", pattern, "COUNT", kCount});
        if (reply.isError()) {
            throw CouldNotAsk(printable(nameOf(master)) + ": SCAN answered: " + printable(reply.text()) +
                              hintFor(reply));
        }
        cursor = reply[0].text();
        std::vector<std::string> keys;
        for (std::size_t i = 0; i < reply[1].size(); i++) {
            keys.emplace_back(reply[1][i].text());
        }
        if (!keys.empty()) {
            onKeys(master, keys);
        }
        pauseFor(cursor == "0" ? 0 : static_cast<int>(pauseMs));
    } while (cursor != "0" && !cursor.empty());
    return true;
}

}  // namespace

ScanBudget budgetOf(const Arguments& arguments) {
    return {arguments.time(kPauseOption.name, 10), arguments.time(kForOption.name, 60'000)};
}

std::string nameOrAll(const Arguments& arguments) {
    const std::vector<std::string>& words = arguments.words();
    const std::string name = words.empty() ? "" : words.front();
    if (!name.empty()) {
        requireName(name);
    }
    if (words.size() > 1) {
        throw UsageError("expected at most one NAME");
    }
    return name;
}

Scanned scan(Store& store, const std::string& pattern, const ScanBudget& budget, const OnKeys& onKeys) {
    const Clock::time_point end =
        budget.mostMs > 0 ? Clock::now() + std::chrono::milliseconds(budget.mostMs) : Clock::time_point::max();
    Scanned scanned;
    if (const std::size_t slots = store.unservedSlots(); slots > 0) {
        scanned.missing.push_back(
            {"", "no master serves " + grouped(static_cast<std::int64_t>(slots)) + " of 16,384 slots"});
    }
    const std::vector<Endpoint> masters = store.masters();
    for (const Endpoint& master : masters) {
        try {
            scanned.isInTime = scanOne(store, master, pattern, end, budget.pauseMs, onKeys) && scanned.isInTime;
        } catch (const CouldNotAsk& failure) {
            scanned.missing.push_back({nameOf(master), failure.what()});
        }
    }
    return scanned;
}

void jsonOf(Json& out, const Scanned& scanned) {
    out.name("complete").boolean(scanned.isComplete()).name("missing").beginArray();
    for (const Missing& each : scanned.missing) {
        out.beginObject();
        if (!each.server.empty()) {
            out.member("server", each.server);
        }
        out.member("text", each.text).endObject();
    }
    out.endArray();
}

std::string ofSeen(const Scanned& scanned, std::int64_t logs) {
    return (scanned.isInTime ? "of " : "of the first ") + counted(logs, "log", "logs");
}

Status tellUnseen(const Scanned& scanned) {
    if (!scanned.isInTime) {
        std::fputs("sliding-log: the time of --for has expired, not all keys were seen\n", stderr);
    }
    for (const Missing& each : scanned.missing) {
        const bool isNamed = each.server.empty() || each.text.starts_with(printable(each.server));
        std::fprintf(stderr, "sliding-log: missing: %s%s%s\n", isNamed ? "" : printable(each.server).c_str(),
                     isNamed ? "" : ": ", each.text.c_str());
    }
    return !scanned.isWhole() ? Status::CouldNotAsk : scanned.isInTime ? Status::Ok : Status::Warning;
}

}  // namespace sliding_log::tool
