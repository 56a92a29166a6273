// The arguments of a call: those of the scripts, which the heads of lua/decide.lua, lua/plain_log.lua and
// lua/renewal.lua describe, or those of a short call. All of them are read before anything is decided.
#pragma once

#include <cstddef>
#include <forward_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/algorithm.hpp"
#include "limit/bounds.hpp"
#include "limit/option.hpp"
#include "redis_module.hpp"

namespace sliding_log::native {

/// What is asked of a log, without its key.
struct Settings {
    double limit = 0;
    double window = 0;  // ms
    double cap = 0;     // 0: none
    double ttl = 0;     // ms

    bool hasOptions = false;
    bool named = false;
    bool countsAll = false;
    double cost = 1;
    double delay = 0;
    double ahead = 0;
    double block = 0;        // the first one, if there are several
    std::string_view times;  // of block=, separated by commas; empty: one or none
    bool escalates = false;  // calls for this log have several times
    double permits = 0;
    double held = 0;   // permits that the caller has still
    double burst = 0;  // 0: none
    double sample = 1;
    bool hasOverride = false;
    bool isTold = false;  // the text of the record is among the arguments
    double allow = -1;  // until when (ms) all keys of the NAME are allowed, if no record says more; 0: for ever; -1: no
    double deny = -1;   // the same: denied
    double settle = -1;  // of a take-back: the true cost of the request; -1: the request is taken back whole
    double ended = -1;   // of settle: ms from the end of the request to the call; -1: not given

    std::string_view options;  // as text

    double capacity() const { return burst > 0 ? burst : limit; }
    bool neverHasRoom() const { return limit < 1 || cost > capacity(); }
};

/// The longest block, as the configuration allows (ms).
inline constexpr auto kLongestBlock = static_cast<double>(kLongestTimeMs);

/// A whole number without a sign.
bool wholeNumberIn(std::string_view text, double& number);

/// The times of block=; a time that is not a whole number is read as 0.
std::vector<double> timesIn(std::string_view times);

struct AskedLog {
    RedisModuleString* key;
    Settings settings;
    std::size_t ids = 0;     // index of the first request's id in the arguments
    std::size_t record = 0;  // index of the text of its record, if isTold
};

struct AskedBatch {
    std::size_t firstLog;
    std::size_t logs;
    std::size_t requests;  // 0: it only asks for permits
    std::size_t names;     // index of the first request's name in the arguments, or of that of the permits
    double loggedAt = 0;   // of a take-back: the time of its entries, and that of its decision
    double takenAt = 0;
};

/// The entries of one log in a renewal, which gives them the present time.
struct AskedRenewal {
    RedisModuleString* key;
    double ttl;           // ms
    std::size_t members;  // index of the first one in the arguments
    std::size_t count;
};

class Arguments {
  public:
    /// `sliding_log.2 ALGORITHM KEYS key... argument...`, or a short call: `sliding_log.2 SETTINGS key`, and the
    /// request's name if the algorithm has names. SETTINGS is one word: algorithm, limit, window and time to live in
    /// ms, and a cost other than 1, separated by spaces.
    Arguments(RedisModuleString** words, int count) : words_(words, static_cast<std::size_t>(count)) {}

    /// Finds the keys without reading the rest. Finds none if the number of keys is not a number, or too large.
    void findKeys();

    /// Reads the arguments. Returns an error, which is the reply to the call, or nullptr.
    const char* read();

    Algorithm algorithm() const { return algorithm_; }

    /// A plain call: one request for each key, with the same settings.
    bool isPlain() const { return isPlain_; }

    /// A plain call with one key. Its reply is one text, except for an error and for a log that the frame decides.
    bool isShort() const { return firstKey_ == kKeyOfShort; }
    std::size_t keys() const { return keys_; }
    std::size_t firstKey() const { return firstKey_; }
    const Settings& plainSettings() const { return latest_; }
    RedisModuleString* key(std::size_t index) const { return words_[firstKey_ + index]; }

    /// The name of that key's request, if the algorithm has names.
    RedisModuleString* plainName(std::size_t index) const { return words_[firstKey_ + keys_ + index]; }

    /// The cost of that key's request, if not all are 1.
    bool hasPlainCosts() const { return !plainCosts_.empty(); }
    double plainCost(std::size_t index) const { return plainCosts_.empty() ? 1 : plainCosts_[index]; }

    /// The request of that key as a batch, for the frame.
    const AskedBatch& leavePlain(std::size_t index);

    bool isTakeBack() const { return isTakeBack_; }

    /// A renewal: the call asks for renewals() and nothing else.
    bool isRenewal() const { return !renewals_.empty(); }
    std::span<const AskedRenewal> renewals() const { return renewals_; }

    /// True if the call has a time, now(), of the caller's clock. Otherwise the clock of this server counts.
    bool hasNow() const { return hasNow_; }
    double now() const { return now_; }

    std::span<const AskedBatch> batches() const { return batches_; }
    std::span<const AskedLog> logs() const { return logs_; }

    RedisModuleString* word(std::size_t index) const { return words_[index]; }
    std::string_view text(std::size_t index) const;

  private:
    static constexpr std::size_t kFirstKey = 3;
    static constexpr std::size_t kKeyOfShort = 2;

    bool isWrittenShort() const { return text(1).find(' ') != std::string_view::npos; }
    bool readShort();
    bool readPlain();
    bool readPlainTwo();
    bool readPlainNumbers();
    bool readRenewals();
    bool readBatch(std::size_t& key);
    bool readLog(std::size_t key, const AskedBatch& batch);
    bool readSettings();
    bool readOptions(std::string_view text);
    bool readOption(Option option, std::string_view value);
    bool readTimes(std::string_view value);
    bool number(double& out);

    std::span<RedisModuleString*> words_;
    std::size_t keys_ = 0;
    std::size_t firstKey_ = kFirstKey;
    std::size_t at_ = 0;  // the next word
    Algorithm algorithm_ = Algorithm::Log;
    bool isPlain_ = false;
    bool isTakeBack_ = false;
    bool hasNow_ = false;
    double now_ = 0;
    std::vector<double> plainCosts_;               // none: all are 1
    std::forward_list<std::string> plainOptions_;  // of the keys that are left; they stay where they are
    Settings latest_;                              // of the log before
    bool hasLatest_ = false;
    const char* error_ = nullptr;
    std::vector<AskedBatch> batches_;
    std::vector<AskedLog> logs_;
    std::vector<AskedRenewal> renewals_;
};

}  // namespace sliding_log::native
