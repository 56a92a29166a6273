// export: all entries of one log, or of all logs of one NAME, for audits; the access log can be joined by id.
//
// Each log is read as it is at one moment, although a long one is read in several pieces. A log of at most one chunk is
// read in one MULTI with its ZCARD. A longer one is read chunk by chunk under WATCH; if it changes in the meantime, it
// is read again in larger chunks, until the largest has all of it.
#include <array>
#include <cstdio>
#include <memory>
#include <unordered_set>

#include "command.hpp"
#include "forms.hpp"
#include "interrupt.hpp"
#include "json.hpp"
#include "progress.hpp"
#include "random.hpp"
#include "scan.hpp"
#include "target.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::array kExportOptions = {
    Option{"--format", "FORMAT", "json, a line for each entry, or csv; json"},
    kPauseOption,
    kSecretOption,
};

constexpr std::array<std::int64_t, 5> kChunks = {1000, 4000, 16'000, 64'000,
                                                 100'000};  // entries: 10 ms of Redis at most

enum class Outcome { Read, Gone, Changed };

/// Lines for standard output. They are held until keep() or drop(); those of a log of several chunks are in a file.
class Output {
  public:
    explicit Output(bool csv) : csv_(csv) {
        if (csv_) {
            print("id,time_ms,time,entry,key\r\n");
        }
    }

    /// `key`: as it is to be shown.
    void beginLog(std::string key) { key_ = std::move(key); }

    /// The id is the entry's name without the suffix that it has if the name was taken, or if a request has several
    /// entries.
    void add(std::string_view entry, std::int64_t ms) {
        const std::string_view id = entry.substr(0, entry.find('~'));
        if (csv_) {
            held_ += field(id) + "," + std::to_string(ms) + "," + isoTime(ms) + "," + field(entry) + "," + field(key_) +
                     "\r\n";
        } else {
            Json line;
            line.beginObject().bytes("id", id).member("time_ms", ms).member("time", isoTime(ms));
            held_ += line.bytes("entry", entry).bytes("key", key_).endObject().line() + "\n";
        }
        lines_++;
    }

    void spill() {
        if (file_ == nullptr) {
            file_.reset(std::tmpfile());
        }
        if (file_ == nullptr || std::fwrite(held_.data(), 1, held_.size(), file_.get()) != held_.size()) {
            throw CouldNotWrite("a temporary file cannot be written");
        }
        held_.clear();
    }

    void drop() {
        held_.clear();
        file_.reset();
        lines_ = 0;
    }

    /// Prints the held lines and returns their number.
    std::int64_t keep() {
        if (file_ != nullptr) {
            std::rewind(file_.get());
            std::array<char, 65536> block;
            std::size_t length = 0;
            while ((length = std::fread(block.data(), 1, block.size(), file_.get())) > 0) {
                print({block.data(), length});
            }
        }
        print(held_);
        const std::int64_t lines = lines_;
        drop();
        return lines;
    }

  private:
    /// True if a spreadsheet takes the text for a formula, which a client could write. The text then gets an
    /// apostrophe. Tabs and carriage returns, which may also begin a formula, are escaped. Negative numbers are not
    /// formulas.
    static bool isFormula(std::string_view text) {
        const bool isNumber = text.starts_with('-') && text.size() > 1 &&
                              text.find_first_not_of("0123456789", 1) == std::string_view::npos;
        return text.find_first_of("=+-@") == 0 && !isNumber;
    }

    static std::string field(std::string_view bytes) {
        std::string text = printable(bytes);
        if (isFormula(text)) {
            text.insert(0, 1, '\'');
        }
        if (text.find_first_of(",\"") == std::string::npos) {
            return text;
        }
        std::string quoted = "\"";
        for (const char c : text) {
            quoted.append(c == '"' ? 2 : 1, c);
        }
        return quoted + "\"";
    }

    struct Close {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };
    bool csv_;
    std::string key_;
    std::string held_;
    std::int64_t lines_ = 0;
    std::unique_ptr<std::FILE, Close> file_;
};

/// Returns the number of members. One with a score below 0 is not an entry: it says that the log is blocked.
std::int64_t addEntries(Output& output, ReplyView entries) {
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
        const std::int64_t ms = entries[i + 1].numberOr(0);
        if (ms >= 0) {
            output.add(entries[i].text(), ms);
        }
    }
    return static_cast<std::int64_t>(entries.size() / 2);
}

Command rangeCommand(const std::string& key, std::int64_t from, std::int64_t count) {
    return {"ZRANGE", key, std::to_string(from), std::to_string(from + count - 1), "WITHSCORES"};
}

Outcome readAtOnce(Store& store, const std::string& key, std::int64_t chunk, Output& output) {
    const std::array<Command, 4> commands = {{{"MULTI"}, {"ZCARD", key}, rangeCommand(key, 0, chunk), {"EXEC"}}};
    const std::vector<Reply> replies = store.ask(key, commands);
    const ReplyView found = checked(replies.back(), "EXEC");
    const std::int64_t count = checked(found[0], "ZCARD").numberOr(-1);
    return addEntries(output, checked(found[1], "ZRANGE")) == count ? Outcome::Read : Outcome::Changed;
}

Outcome readByChunks(Store& store, const std::string& key, std::int64_t chunk, Output& output) {
    const std::size_t redirections = store.redirections();
    const std::array<Command, 2> begin = {{{"WATCH", key}, {"ZCARD", key}}};
    std::vector<Reply> replies = store.ask(key, begin);
    checked(replies[0], "WATCH");
    const std::int64_t count = checked(replies[1], "ZCARD").numberOr(0);
    std::int64_t read = 0;
    while (read < count) {
        const Reply reply = store.ask(key, rangeCommand(key, read, chunk));
        const std::int64_t more = addEntries(output, checked(reply, "ZRANGE"));
        output.spill();
        read += more;
        endIfInterrupted();
        if (more == 0) {
            break;  // the log has become shorter: EXEC reports it
        }
    }
    const std::array<Command, 3> end = {{{"MULTI"}, {"ZCARD", key}, {"EXEC"}}};
    replies = store.ask(key, end);
    const ReplyView unchanged = checked(replies.back(), "EXEC");
    const bool isSame = !unchanged.isNil() && store.redirections() == redirections &&
                        checked(unchanged[0], "ZCARD").number() == read && read == count;
    return isSame ? Outcome::Read : Outcome::Changed;
}

Outcome readLog(Store& store, const std::string& key, Output& output) {
    for (const std::int64_t chunk : kChunks) {
        output.drop();
        const Reply card = store.ask(key, {"ZCARD", key});
        const std::int64_t count = checked(card, "ZCARD").numberOr(0);
        if (count == 0) {
            return Outcome::Gone;
        }
        if ((count <= chunk ? readAtOnce(store, key, chunk, output) : readByChunks(store, key, chunk, output)) ==
            Outcome::Read) {
            return Outcome::Read;
        }
    }
    return Outcome::Changed;
}

struct Tally {
    std::int64_t logs = 0;
    std::int64_t entries = 0;
    std::int64_t others = 0;   // keys that are not logs of this kind
    std::int64_t changed = 0;  // logs that were omitted
};

void exportLog(Store& store, const std::string& key, std::string_view type, const std::string& shown, Output& output,
               Tally& tally) {
    if (type != kLogForm.type()) {
        tally.others += type == "none" ? 0 : 1;
        return;
    }
    output.beginLog(shown);
    const Outcome outcome = readLog(store, key, output);
    if (outcome == Outcome::Read) {
        tally.entries += output.keep();
        tally.logs++;
    } else if (outcome == Outcome::Changed) {
        output.drop();
        tally.changed++;
        std::fprintf(stderr, "sliding-log: %s was left out: it changed each time it was read\n",
                     printable(shown).c_str());
    }
    endIfInterrupted();
}

/// Ok if everything was read.
Status tell(const Tally& tally, std::string_view name) {
    std::fprintf(stderr, "sliding-log: %s of %s, the count of each log was verified\n",
                 counted(tally.entries, "entry", "entries").c_str(), counted(tally.logs, "log", "logs").c_str());
    if (tally.others > 0) {
        std::fprintf(stderr, "sliding-log: %s of %s %s left out: not of algorithm=log\n",
                     counted(tally.others, "key", "keys").c_str(), std::string(name).c_str(),
                     tally.others == 1 ? "was" : "were");
    }
    return tally.changed + tally.others > 0 ? Status::Warning : Status::Ok;
}

Status exportOne(const Context& context, Output& output) {
    const std::string target = targetKey(context);
    Store store(context.settings);
    const std::string key = wholeKey(store, context, target);
    const std::string shown = context.shown(key);
    Tally tally;
    const Reply type = store.ask(key, {"TYPE", key});
    exportLog(store, key, checked(type, "TYPE").text(), shown, output, tally);
    if (tally.logs + tally.others + tally.changed == 0) {
        std::fprintf(stderr, "sliding-log: no log at %s\n", printable(shown).c_str());
        return Status::Warning;
    }
    return tell(tally, printable(shown));
}

Status exportAll(const Context& context, const std::string& name, Output& output) {
    const ScanBudget budget{budgetOf(context.arguments).pauseMs};
    Store store(context.settings);
    const std::hash<std::string> hash;
    const std::string salt = std::to_string(randomBits());
    std::unordered_set<std::uint64_t> seen;  // SCAN may return a key twice; salted, so that no client causes collisions
    Tally tally;
    Scanned scanned;
    {
        Progress progress("entries:", 0);
        scanned = scan(store, logPattern(context.prefix, name), budget,
                       [&](const Endpoint& where, const std::vector<std::string>& keys) {
                           const std::vector<Reply> types = store.typesOf(where, keys);
                           for (std::size_t i = 0; i < keys.size(); i++) {
                               if (seen.insert(hash(salt + keys[i])).second) {
                                   exportLog(store, keys[i], checked(types[i], "TYPE").text(), context.shown(keys[i]),
                                             output, tally);
                                   progress.at(tally.entries);
                               }
                           }
                       });
    }
    const bool moved = scanned.isWhole() && !store.refresh();
    const Status status = tell(tally, name);
    if (moved) {
        std::fputs("sliding-log: slots of the cluster moved during the export: some logs may be missing\n", stderr);
    }
    const Status unseen = tellUnseen(scanned);
    return unseen != Status::Ok ? unseen : moved ? Status::Warning : status;
}

Status runExport(const Context& context) {
    const std::vector<std::string>& words = context.arguments.words();
    const std::string format = context.arguments.text("--format", "json");
    if (format != "json" && format != "csv") {
        refuseValue("--format", format, "json or csv");
    }
    if (words.empty() || words.size() > 2) {
        throw UsageError("expected the NAME of a limit, with or without the value of its key, or a full key");
    }
    const bool isOne = words.size() == 2 || words[0].find(":{") != std::string::npos;
    if (!isOne) {
        requireName(words[0]);
    }
    Output output(format == "csv");
    return isOne ? exportOne(context, output) : exportAll(context, words[0], output);
}

}  // namespace

const ToolCommand kExport = {"export", "NAME [VALUE] | KEY",
                             "prints every entry of every log of a limit (algorithm=log), or of one log, for audits",
                             kExportOptions, runExport};

}  // namespace sliding_log::tool
