// top: shows the largest logs.
#include <algorithm>
#include <array>
#include <cstdio>

#include "command.hpp"
#include "forms.hpp"
#include "json.hpp"
#include "progress.hpp"
#include "scan.hpp"
#include "table.hpp"
#include "target.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::array kTopOptions = {
    Option{"--count", "N", "the number of logs; 20"},
    Option{"--by", "WHAT", "entries or bytes; bytes if the user may run MEMORY USAGE"},
    kPauseOption,
    kForOption,
    kSecretOption,
};

struct Log {
    std::string key;
    const Form* form;
    std::optional<std::int64_t> entries;
    std::int64_t bytes;  // 0: not known
    std::int64_t expiresMs;
};

/// The largest of the logs that are offered; a key that is offered twice is there once.
class Largest {
  public:
    Largest(std::size_t most, bool byEntries) : most_(most), byEntries_(byEntries) {}

    void offer(Log log) {
        const auto same = std::ranges::find(logs_, log.key, &Log::key);
        if (same != logs_.end()) {
            *same = std::move(log);
        } else {
            logs_.push_back(std::move(log));
        }
        std::ranges::stable_sort(logs_, [this](const Log& a, const Log& b) { return size(a) > size(b); });
        if (logs_.size() > most_) {
            logs_.pop_back();
        }
    }

    bool wouldTake(const Log& log) const { return logs_.size() < most_ || size(log) > size(logs_.back()); }
    const std::vector<Log>& logs() const { return logs_; }

  private:
    std::pair<std::int64_t, std::int64_t> size(const Log& log) const {
        const std::int64_t entries = log.entries.value_or(0);
        return byEntries_ ? std::pair(entries, log.bytes) : std::pair(log.bytes, entries);
    }

    std::size_t most_;
    bool byEntries_;
    std::vector<Log> logs_;
};

/// Of all logs that were seen.
struct Seen {
    std::int64_t logs = 0;
    std::int64_t bytes = 0;
    bool areBytesKnown = true;  // the user may run MEMORY USAGE
};

void readBatch(Store& store, const Endpoint& where, const std::vector<std::string>& keys, Largest& largest,
               Seen& seen) {
    const std::vector<Reply> kinds = store.typesOf(where, keys);
    std::vector<std::string_view> known;
    std::vector<std::string> askedKeys;
    std::vector<Command> commands;
    for (std::size_t i = 0; i < keys.size(); i++) {
        if (const Form* form = formOfType(checked(kinds[i], "TYPE").text())) {
            known.push_back(form->type());
            askedKeys.insert(askedKeys.end(), 3, keys[i]);
            commands.push_back(form->probe(keys[i]));
            commands.push_back({"MEMORY", "USAGE", keys[i]});
            commands.push_back({"PTTL", keys[i]});
        }
    }
    const std::vector<Reply> replies = store.askEach(where, askedKeys, commands);
    for (std::size_t i = 0; i < known.size(); i++) {
        const ReplyView probed = replies[3 * i];
        const std::int64_t expiresMs = replies[3 * i + 2].numberOr(-2);
        const Form* form = expiresMs == -2 ? nullptr : formOf(known[i], probed);
        if (form == nullptr) {
            continue;  // it has expired in the meantime, or is not a log
        }
        seen.logs++;
        seen.bytes += replies[3 * i + 1].numberOr(0);
        seen.areBytesKnown = seen.areBytesKnown && !replies[3 * i + 1].isError();
        Log log{askedKeys[3 * i], form, form->count(probed), replies[3 * i + 1].numberOr(0), expiresMs};
        if (largest.wouldTake(log)) {
            largest.offer(std::move(log));
        }
    }
}

std::string human(const std::vector<Log>& logs) {
    using enum Table::Align;
    Table table({{"key"}, {"algorithm"}, {"entries", Right}, {"memory", Right}, {"expires in", Right}});
    for (const Log& log : logs) {
        table.row({printable(log.key), std::string(log.form->name()), log.entries ? grouped(*log.entries) : "-",
                   log.bytes == 0 ? "-" : byteSize(static_cast<double>(log.bytes)),
                   log.expiresMs < 0 ? "never" : duration(log.expiresMs)});
    }
    return table.text();
}

/// Of all masters; 0 if a user may not ask.
std::int64_t usedMemory(Store& store) {
    std::int64_t used = 0;
    for (const Endpoint& master : store.masters()) {
        try {
            const Reply info = store.at(master).ask({"INFO", "memory"});
            if (info.isError()) {
                return 0;
            }
            used += infoNumber(info.text(), "used_memory");
        } catch (const CouldNotAsk&) {
            return 0;  // told by the scan
        }
    }
    return used;
}

std::string shareText(const Seen& seen, std::int64_t used) {
    if (!seen.areBytesKnown || used <= 0) {
        return "";
    }
    return ", which take " + byteSize(static_cast<double>(seen.bytes)) + " of the " +
           byteSize(static_cast<double>(used)) + " that Redis uses, " +
           decimal(100 * static_cast<double>(seen.bytes) / static_cast<double>(used), 1) + " %";
}

std::string json(const std::vector<Log>& logs, const Seen& seen, std::int64_t used, const Scanned& scanned) {
    Json out;
    out.beginObject().member("logs_seen", seen.logs);
    if (seen.areBytesKnown) {
        out.member("bytes_seen", seen.bytes);
    }
    if (used > 0) {
        out.member("used_memory", used);
    }
    jsonOf(out, scanned);
    out.name("logs").beginArray();
    for (const Log& log : logs) {
        out.beginObject().bytes("key", log.key).member("algorithm", log.form->name());
        if (log.entries) {
            out.member("entries", *log.entries);
        }
        if (log.bytes > 0) {
            out.member("bytes", log.bytes);
        }
        out.member("expires_ms", log.expiresMs).endObject();
    }
    return out.endArray().endObject().line() + "\n";
}

Status runTop(const Context& context) {
    const Arguments& arguments = context.arguments;
    const std::string name = nameOrAll(arguments);
    const std::string by = arguments.text("--by", "bytes");
    if (by != "bytes" && by != "entries") {
        refuseValue("--by", by, "entries or bytes");
    }
    Largest largest(static_cast<std::size_t>(arguments.count("--count", 20, 1, 10'000)), by == "entries");
    const ScanBudget budget = budgetOf(arguments);

    Store store(context.settings);
    Seen seen;
    Scanned scanned;
    {
        Progress progress("logs seen:", 0);
        scanned = scan(store, logPattern(context.prefix, name), budget,
                       [&](const Endpoint& where, const std::vector<std::string>& keys) {
                           readBatch(store, where, keys, largest, seen);
                           progress.at(seen.logs);
                       });
    }
    std::vector<Log> logs = largest.logs();
    for (Log& log : logs) {
        log.key = context.shown(log.key);
    }
    const std::int64_t used = usedMemory(store);
    print(context.json ? json(logs, seen, used, scanned) : human(logs));
    if (!context.json) {
        print(ofSeen(scanned, seen.logs) + shareText(seen, used) + "\n");
    }
    const Status status = tellUnseen(scanned);
    if (seen.logs == 0 && !name.empty() && scanned.isComplete()) {
        std::fprintf(stderr, "sliding-log: no log of %s: no key begins with %s%s:\n", name.c_str(),
                     printable(context.prefix).c_str(), name.c_str());
        return Status::Warning;
    }
    return status;
}

}  // namespace

const ToolCommand kTop = {"top", "[NAME]", "lists the largest logs, of one limit or of all", kTopOptions, runTop};

}  // namespace sliding_log::tool
