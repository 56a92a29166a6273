// KEYS and ARGV of a call, as the heads of lua/decide.lua, plain_log.lua and renewal.lua tell: nothing else writes
// them, but for plain calls of one request (store/plain_settings.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "limit/check.hpp"
#include "limit/number.hpp"
#include "limit/options_text.hpp"

namespace sliding_log {

/// The check has options that are of use only to a request without room, or whose log has a record.
inline bool hasPlainOptions(const Check& check) {
    return check.delayMs != 0 || check.aheadMs != 0 || check.blockMs != 0 || check.escalates || check.hasOverride;
}

/// A plain call of the check tells options: such ones, or those that its algorithm always has.
inline bool tellsOptions(const Check& check) {
    return hasPlainOptions(check) || takes(check.algorithm, Parameter::Burst);
}

/// A request of that log alone, by the server's clock, is a plain call. Some algorithms have plain calls with a cost,
/// and with such options.
inline bool isPlain(const Check& check) {
    const AlgorithmRow& row = rowOf(check.algorithm);
    const bool hasOthers = check.named || check.countsAll || check.isSettled() || check.ofName.decides();
    return !row.plain.empty() && !hasOthers && (check.cost == 1 || (row.hasPlainCosts && check.cost > 0)) &&
           (row.hasPlainOptions || !hasPlainOptions(check));
}

/// A request of these two logs is a plain call.
inline bool arePlainTwo(const Check& first, const Check& second) {
    const auto fits = [](const Check& check) { return isPlain(check) && check.cost == 1 && !hasPlainOptions(check); };
    return fits(first) && fits(second) && first.key != second.key;
}

/// Plain calls for these logs can be one.
inline bool arePlainTogether(const Check& left, const Check& right) {
    const auto haveSameOptions = [&] {
        return OptionsText::withoutCost(left).view() == OptionsText::withoutCost(right).view();
    };
    return left.limit == right.limit && left.windowMs == right.windowMs && left.ttlMs == right.ttlMs &&
           ((!tellsOptions(left) && !tellsOptions(right)) || haveSameOptions());
}

/// The settings of a short call (native/arguments.hpp): "compact 100 10000 11000", and a cost other than 1.
inline std::string shortSettings(const Check& check) {
    std::string text(nameOf(check.algorithm));
    for (const std::int64_t number : {check.limit, check.windowMs, check.ttlMs}) {
        text.append(" ").append(DecimalText(number).view());
    }
    return check.cost == 1 ? text : text.append(" ").append(DecimalText(check.cost).view());
}

/// Calls visit(member) for each entry of a request, as lua/sliding_log.lua names those without an id.
template <typename Visit>
void forEachMember(std::int64_t cost, std::string_view unique, Visit visit) {
    if (cost > 0) {
        visit(unique);
    }
    std::string member;
    for (std::int64_t i = 2; i <= cost; i++) {
        member.assign(unique).append("~").append(DecimalText(i).view());
        visit(std::string_view(member));
    }
}

/// One call at a time: plainRequest() and plain(), or decide() or takeBack(), then for each batch batch(), its
/// requests, and its logs, behind each log that is named the requests' ids. Each text goes to the sink's key() or
/// argument(), in its order.
template <typename Sink>
class ScriptArguments {
  public:
    explicit ScriptArguments(Sink& sink) : sink_(sink) {}

    /// `now` stamps the requests: milliseconds, or "" for the server's clock.
    void decide(Algorithm algorithm, std::string_view now) {
        begin(algorithm);
        sink_.argument(now);
    }

    /// Behind "take back" and the time of the call: what a request that was decided at `takenMs` logged at `loggedMs`.
    void takeBack(Algorithm algorithm, std::uint64_t loggedMs, std::uint64_t takenMs) {
        begin(algorithm);
        number(static_cast<std::int64_t>(loggedMs));
        number(static_cast<std::int64_t>(takenMs));
    }

    void batch(std::size_t logs, std::size_t requests) {
        number(static_cast<std::int64_t>(logs));
        number(static_cast<std::int64_t>(requests));
    }

    /// `unique`: a name that no other request has.
    void request(std::string_view unique) { sink_.argument(namesEntries_ ? unique : std::string_view()); }

    /// `permits`: how many the call asks for, see lua/decide.lua. `isTold`: record() follows, behind the ids.
    void log(const Check& check, std::int64_t permits = 0, bool isTold = false) {
        sink_.key(check.key);
        if (!isTold && latest_ && latestPermits_ == permits && areAlike(*latest_, check)) {
            sink_.argument(std::string_view());
            return;
        }
        latest_ = check;
        latestPermits_ = permits;
        settings(check);
        sink_.argument(OptionsText(check, permits, isTold).view());
        if (isTold) {
            latest_.reset();
        }
    }

    /// In place of batch(), its request and its log: a call that only asks for permits, which have this name with "~p"
    /// behind it. `held`: the number that the node has still.
    void permits(const Check& check, std::string_view name, std::int64_t permits, std::int64_t held) {
        batch(1, 0);
        request(name);
        sink_.key(check.key);
        settings(check);
        sink_.argument(OptionsText(check, permits, false, held).view());
    }

    /// The logs and requests of a plain call, then plain(): of all of them, see isPlain() and arePlainTogether().
    /// `hasCosts`: not all of their costs are 1.
    void plainRequest(const Check& check, std::string_view unique, bool hasCosts) {
        sink_.key(check.key);
        if (rowOf(check.algorithm).namesEntries) {
            sink_.argument(unique);
        }
        if (hasCosts) {
            plainCost(check);
        }
    }
    void plainCost(const Check& check) { number(check.cost); }
    void plain(const Check& check) {
        number(check.limit);
        number(check.windowMs);
        number(check.ttlMs);
        if (tellsOptions(check)) {
            sink_.argument(OptionsText::withoutCost(check).view());
        }
    }

    /// The logs and requests of a plain call of two limits, then plainTwo(): of all of them, see arePlainTwo().
    void plainRequestOfTwo(const Check& first, const Check& second, std::string_view unique) {
        plainRequest(first, unique, false);
        sink_.key(second.key);
    }
    void plainTwo(const Check& first, const Check& second) {
        plain(first);
        plain(second);
        sink_.argument(kPlainTwo);
    }

    /// A renewal, then for each log renewed(), and member() for each of its entries; see lua/renewal.lua.
    void renew() {
        sink_.argument("renew");
        sink_.argument(std::string_view());
    }
    void renewed(const Check& check, std::int64_t entries) {
        sink_.key(check.key);
        number(check.ttlMs);
        number(entries);
    }
    void member(std::string_view name) { sink_.argument(name); }

    /// The text of a record that was read before; "": there is none.
    void record(std::string_view text) { sink_.argument(text); }

    /// "": the request's unique name.
    void id(std::string_view id) { sink_.argument(id); }

  private:
    void begin(Algorithm algorithm) {
        namesEntries_ = rowOf(algorithm).namesEntries;
        latest_.reset();
    }

    void settings(const Check& check) {
        number(check.limit);
        number(check.windowMs);
        number(check.cap);
        number(check.ttlMs);
    }

    void number(std::int64_t number) { sink_.argument(DecimalText(number).view()); }

    /// True when a script is told the same of two logs, but for their keys.
    static bool areAlike(const Check& left, const Check& right) {
        return left.limit == right.limit && left.windowMs == right.windowMs && left.cap == right.cap &&
               left.ttlMs == right.ttlMs && OptionsText(left).view() == OptionsText(right).view();
    }

    Sink& sink_;
    bool namesEntries_ = false;
    std::optional<Check> latest_;  // of the call's logs; only its numbers are looked at
    std::int64_t latestPermits_ = 0;
};

}  // namespace sliding_log
