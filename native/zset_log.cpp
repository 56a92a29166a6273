#include "zset_log.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "limit/block_form.hpp"
#include "limit/permit_life.hpp"
#include "limit/sampling.hpp"

namespace sliding_log::native {

namespace {

constexpr Command kZadd{.name = "ZADD", .writes = true, .grows = true};
constexpr Command kZrange{.name = "ZRANGE"};
constexpr Command kZrangeByScore{.name = "ZRANGEBYSCORE"};
constexpr Command kZrem{.name = "ZREM", .writes = true};
constexpr Command kZremByRank{.name = "ZREMRANGEBYRANK", .writes = true};
constexpr Command kZremByScore{.name = "ZREMRANGEBYSCORE", .writes = true};
constexpr Command kZscore{.name = "ZSCORE"};

constexpr const char* kNotZset = "WRONGTYPE not a log of algorithm=log or sampled";

}  // namespace

double ZsetLog::entriesOf(const Log& log, std::size_t name) const {
    if (!isSampled_) {
        return log.cost;
    }
    return static_cast<double>(sampledEntries(integerOf(log.cost), integerOf(log.sample), arguments_.text(name)));
}

double ZsetLog::fits(const Log& log, const Requests& requests, double room) const {
    if (!isSampled_) {
        return log.cost == 0 ? requests.to : std::floor(room / log.cost);
    }
    for (double j = requests.from; j <= requests.to; j++) {
        if (room < log.cost) {
            return j - 1;
        }
        room -= entriesOf(log, requests.names + static_cast<std::size_t>(j) - 1) * log.sample;
    }
    return requests.to;
}

bool ZsetLog::scoreAt(const Log& log, double rank, double& score) {
    const std::string at = textOf(rank);
    const Reply reply = redis_.call(kZrange, log.key, {at, at, "WITHSCORES"});
    return reply.size() == 2 && numberIn(reply.at(1), score);
}

/// The score at a rank, rounded up to a whole ms; entries too far ahead count as entries of now.
double ZsetLog::scoreOrNow(const Log& log, double rank) {
    double score = clock_.now;
    scoreAt(log, rank, score);
    return score <= farthest(log) ? std::ceil(score) : clock_.now;
}

double ZsetLog::latest(const Log& log) {
    std::string member;
    double oldest = 0;
    double newest = 0;
    Key key(redis_, clock_, log.key);
    if (key.type() != api::Zset || !key.oldest(oldest, &member) || !key.newest(newest)) {
        return 0;
    }
    double length = std::numeric_limits<double>::infinity();
    if (const std::string_view digits = blockLengthIn(member); oldest < 0 && !digits.empty()) {
        numberIn(digits, length);
    }
    return std::max(newest - log.ahead, -oldest - length);
}

Found ZsetLog::read(Log& log) {
    const double horizon = clock_.now - log.window;
    std::string member;
    double oldest = 0;
    double newest = 0;
    double count = 0;
    bool hasNewest = false;
    log.first = log.leaving = 0;

    Key key(redis_, clock_, log.key);
    if (key.type() != api::Empty && key.type() != api::Zset) {
        return {.error = kWrongType};
    }
    bool has = key.type() == api::Zset && key.oldest(oldest, &member);
    if (has) {
        count = static_cast<double>(key.count());
    }
    if (has && oldest <= horizon) {
        double last = 0;
        double stale = count;  // the number of stale members, if `last` is stale
        if (count > kAtOnce) {
            key.close();
            if (!scoreAt(log, kAtOnce, last)) {
                unreadable();
            }
            stale = kAtOnce + 1;
        } else {
            hasNewest = key.newest(newest);
            last = newest;
        }
        if (oldest >= 0 && last > horizon) {
            count -= removeUpTo(redis_, key, log.key, horizon);
            has = key.oldest(oldest);
        } else {
            key.close();
            prune(log, member, oldest, has, count, oldest >= 0 ? stale : 0);
        }
    }
    if (has && (count >= log.limit || oldest > clock_.now || !clock_.isOwn || !key.expireLater(log.ttl))) {
        if (!hasNewest) {
            key.newest(newest);
        }
        if (newest > clock_.now && newest > farthest(log)) {
            key.close();
            stepBack(log, farthest(log));
            oldest = std::min(oldest, clock_.now);
        }
    }
    log.used = count * log.sample;
    log.hasFrees = has;
    log.frees = oldest + log.window;
    return {.isBlocked = log.isBlocked};
}

double ZsetLog::removeUpTo(Redis& redis, Key& key, RedisModuleString* name, double horizon) {
    double removed = 0;
    if (!key.removeFewUpTo(static_cast<double>(integerOf(horizon)), removed)) {
        key.close();
        removed = redis.call(kZremByScore, name, {"0", textOf(horizon)}).integer();
    }
    return removed;
}

/// The rank of the oldest entry of the window; `count` if there is none. The first `known` members are not in the
/// window. It is usually near.
double ZsetLog::rankOfOldest(const Log& log, double known, double count) {
    double low = known;
    double high = count;
    double step = 1;
    while (low < high) {
        const double rank = std::min(low + step - 1, std::floor((low + high) / 2));
        double score = 0;
        if (!scoreAt(log, rank, score)) {
            unreadable();
        }
        if (score <= clock_.now - log.window) {
            low = rank + 1;
            step = 2 * step;
        } else {
            high = rank;
        }
    }
    return low;
}

/// Prunes a log that begins with a block, or has more than kAtOnce stale entries, or only stale ones; `stale` of them
/// are known. Sets `score` to that of the oldest entry of the window, if it `has` one, and `count` to the number of
/// entries.
void ZsetLog::prune(Log& log, const std::string& member, double& score, bool& has, double& count, double stale) {
    double length = 0;
    if (score < 0 && !numberIn(blockLengthIn(member), length)) {
        throw Error{kNotZset};
    }
    const bool isBlocked = score < 0 && -score > clock_.now;
    if (isBlocked) {
        log.isBlocked = true;
        log.blockedUntil = -score;
        log.blockLength = length;
    }
    const double front = isBlocked ? 1 : 0;
    log.first = rankOfOldest(log, std::max(front, stale), count);
    log.leaving = std::min(log.first - front, kAtOnce);
    count -= log.first;
    if (isBlocked || count > 0) {
        removeStale(log);
    }
    has = count > 0;
    if (has && !scoreAt(log, log.first, score)) {
        unreadable();
    }
}

/// Removes stale members. A block that lasts is kept.
void ZsetLog::removeStale(Log& log) {
    if (log.leaving > 0) {
        const double front = log.isBlocked ? 1 : 0;
        redis_.call(kZremByRank, log.key, {textOf(front), textOf(front + log.leaving - 1)});
        log.first -= log.leaving;
        log.leaving = 0;
    }
}

void ZsetLog::block(Log& log, double length, double until) {
    std::string member = blockMember(textOf(length));
    double score = 0;
    const auto scoreOfMember = [&] {
        const Reply reply = redis_.call(kZscore, log.key, {member});
        std::string_view text;
        return reply.text(text) && numberIn(text, score) ? score : -1;
    };
    while (scoreOfMember() > 0) {
        member += '~';  // an entry has this name: the id of a request
    }
    const bool isNew = redis_.call(kZadd, log.key, {textOf(-until), member}).integer() == 1;
    if (isNew) {
        log.first++;
    } else if (log.leaving > 0) {
        log.leaving--;  // the stale block had this name
    }
    removeStale(log);
}

void ZsetLog::unblock(Log& log) {
    log.isBlocked = false;
    redis_.call(kZremByRank, log.key, {"0", "0"});
}

/// The latest time that a reservation or a permit may have.
double ZsetLog::farthest(const Log& log) const {
    return clock_.now + std::max(log.ahead, static_cast<double>(permitLifeMs(integerOf(log.window))));
}

/// Entries further ahead of now than reservations and permits may be become entries of now. While some are left, the
/// time to live is so long that PEXPIRE GT cannot extend it.
void ZsetLog::stepBack(const Log& log, double farthest) {
    const Reply ahead =
        redis_.call(kZrangeByScore, log.key, {"(" + textOf(farthest), "+inf", "LIMIT", "0", textOf(kAtOnce)});
    const std::string now = clock_.text();
    std::vector<std::string_view> moved;
    for (std::size_t i = 0; i < ahead.size(); i++) {
        moved.push_back(now);
        moved.push_back(ahead.at(i));
    }
    if (!moved.empty()) {
        redis_.call(kZadd, log.key, moved);
    }
    const bool isLast = static_cast<double>(ahead.size()) < kAtOnce;
    redis_.call(kPexpire, log.key, {textOf(isLast ? log.ttl : 2 * log.ttl)});
}

double ZsetLog::roomAt(const Log& log, double missing) {
    const double leave = std::ceil(missing / log.sample);
    return scoreOrNow(log, leave - 1 + log.first) + log.window;
}

// ---- adding

/// Adds the entries of a request after the first one. Returns an error, or empty.
std::string ZsetLog::addOthers(const Log& log, double score, const std::string& name, double entries) {
    if (entries < 2) {
        return {};
    }
    const std::string time = textOf(score);
    std::vector<std::string> members;
    for (double i = 2; i <= entries; i++) {
        members.push_back(name + '~' + textOf(i));
    }
    std::vector<std::string_view> words;
    for (const std::string& member : members) {
        words.push_back(time);
        words.push_back(member);
    }
    const Reply reply = redis_.tried(kZadd, log.key, words);
    return reply.isError() ? reply.errorText() : std::string();
}

/// Adds requests with ids or costs, at most `longest` entries of each. Returns an error, or empty.
std::string ZsetLog::addEntries(const Log& log, const Requests& requests, double score, double longest, double& added) {
    const std::string time = textOf(score);
    for (double j = requests.from; j <= requests.to; j++) {
        const std::size_t offset = static_cast<std::size_t>(j) - 1;
        const std::string name(arguments_.text(requests.names + offset));
        const std::string id(log.named ? arguments_.text(log.ids + offset) : std::string_view());
        const double entries = std::min(entriesOf(log, requests.names + offset), longest);
        if (entries > 0) {
            std::string member = id.empty() ? name : id;
            for (;;) {
                const Reply reply = redis_.tried(kZadd, log.key, {"NX", time, member});
                if (reply.isError()) {
                    return reply.errorText();
                }
                if (reply.integer() != 0) {
                    break;
                }
                member += '~' + name;  // the id is in the log already: both entries stay
            }
            std::string failed = addOthers(log, score, id.empty() ? name : id + '~' + name, entries);
            if (!failed.empty()) {
                return failed;
            }
            added += entries;
        }
    }
    return {};
}

/// Removes the oldest entries until no more than `longest` are left.
void ZsetLog::cut(Log& log, double longest) {
    const double over = log.used / log.sample - longest;
    if (over > 0) {
        redis_.call(kZremByRank, log.key, {textOf(log.first), textOf(log.first + over - 1)});
        log.used = longest * log.sample;
        log.frees = scoreOrNow(log, log.first) + log.window;
    }
}

std::string ZsetLog::add(Log& log, const Requests& requests, const double* at, bool denied) {
    const double time = at != nullptr ? static_cast<double>(integerOf(*at)) : clock_.now;
    double longest = std::numeric_limits<double>::infinity();
    double added = 0;
    Key key(redis_, clock_, log.key);
    if (log.hasOptions) {
        if (denied && log.cap > 0) {
            longest = std::max(log.cap, log.used / log.sample);
        }
        if (std::string failed = addEntries(log, requests, time, longest, added); !failed.empty()) {
            return failed;
        }
    } else if (requests.count() > 0) {
        if (redis_.isFull(log.key)) {
            return kOutOfMemory;
        }
        double again = 0;
        for (double j = requests.from; j <= requests.to; j++) {
            const std::size_t name = requests.names + static_cast<std::size_t>(j) - 1;
            again += key.add(time, arguments_.word(name)) ? 0 : 1;
        }
        key.close();
        // `again` names were in the log already: both entries of each stay
        for (double j = requests.from; again > 0 && j <= requests.to; j++) {
            const std::string name(arguments_.text(requests.names + static_cast<std::size_t>(j) - 1));
            again -= redis_.call(kZadd, log.key, {"NX", textOf(time), name + '~' + name}).integer();
        }
        added = requests.count();
    }
    if (added > 0) {
        if (log.leaving > 0) {
            removeStale(log);
        }
        if (!log.hasFrees || !clock_.isOwn || log.used >= log.limit) {
            key.expireIn(log.ttl);  // not as PEXPIRE GT: a new log has no time to live, which GT takes for the longest
            key.close();
        }
        const double leaves = (at != nullptr ? *at : clock_.now) + log.window;
        if (!log.hasFrees || log.frees > leaves) {
            log.hasFrees = true;
            log.frees = leaves;
        }
        log.used += added * log.sample;
        if (denied) {
            cut(log, longest);
        }
    }
    return {};
}

bool ZsetLog::permit(Log& log, std::string_view name, double permits, double at) {
    const double entries = permits * log.cost;
    const std::string time = textOf(at);
    std::vector<std::string> members = {std::string(name)};
    for (double i = 2; i <= entries; i++) {
        members.push_back(members.front() + '~' + textOf(i));
    }
    std::vector<std::string_view> words = {"NX"};
    for (const std::string& member : members) {
        words.push_back(time);
        words.push_back(member);
    }
    if (redis_.tried(kZadd, log.key, words).isError()) {
        return false;
    }
    redis_.call(kPexpire, log.key, {textOf(log.ttl)});  // without a request that was added before
    log.used += entries;
    return true;
}

// ---- taking back

/// The score of a member; false if there is none. The script asks ZADD, since ACL rules seldom permit ZSCORE; the
/// module needs no right for it, and the result is the same.
bool ZsetLog::scoreOf(const Log& log, const std::string& member, double& score) {
    const Reply reply = redis_.call(kZscore, log.key, {member});
    std::string_view text;
    return reply.text(text) && numberIn(text, score);
}

/// The first entry of a request with an id: the member with both names; or the member with the id alone, if it has the
/// request's time, or an earlier one because the clock has stepped back since.
bool ZsetLog::firstOf(const Log& log, const std::string& name, const std::string& id, double logged, double taken,
                      std::string& member) {
    double score = 0;
    member = id + '~' + name;
    if (scoreOf(log, member, score)) {
        return true;
    }
    member = id;
    return scoreOf(log, id, score) &&
           (score == logged || (score > 0 && score < logged && clock_.isOwn && clock_.now < taken));
}

/// `leaving`: the names that the first entry of the request may have. This is the last command for this key, unless a
/// block is left.
bool ZsetLog::remove(const Log& log, std::vector<std::string> leaving, const std::string& name, double entries) {
    for (double i = 2; i <= entries; i++) {
        leaving.push_back(name + '~' + textOf(i));
    }
    const std::vector<std::string_view> words(leaving.begin(), leaving.end());
    return !words.empty() && redis_.call(kZrem, log.key, words).integer() > 0;
}

bool ZsetLog::takeBack(Log& log, std::size_t names, double logged, double taken, bool& isBlocked) {
    std::string name(arguments_.text(names));
    const std::string id(log.named ? arguments_.text(log.ids) : std::string_view());
    const double entries = entriesOf(log, names);
    if (entries == 0 || logged <= clock_.now - log.window) {
        return false;
    }
    double oldest = 0;
    isBlocked = scoreAt(log, 0, oldest) && oldest < 0;
    std::vector<std::string> leaving;
    if (id.empty()) {
        leaving = {name, name + '~' + name};
    } else {
        std::string member;
        if (firstOf(log, name, id, logged, taken, member)) {
            leaving.push_back(member);
        }
        name = id + '~' + name;
    }
    return remove(log, std::move(leaving), name, entries);
}

}  // namespace sliding_log::native
