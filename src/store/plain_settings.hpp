// What a plain call of one request says besides its key and name. It is remembered from one call to the next: most
// calls of a worker are for the same limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "limit/check.hpp"
#include "redis/native_command.hpp"
#include "redis/resp.hpp"
#include "redis/script_arguments.hpp"

namespace sliding_log {

class PlainSettings {
  public:
    /// Those of this check, for which isPlain() is true.
    void assign(const Check& check) {
        if (algorithm_ != check.algorithm || limit_ != check.limit || windowMs_ != check.windowMs ||
            ttlMs_ != check.ttlMs || cost_ != check.cost || !hasOptionsOf(check)) {
            write(check);
        }
    }

    /// The number of arguments that arguments() has.
    std::size_t count() const { return count_; }

    /// What stands behind the key and the name.
    std::string_view arguments() const { return arguments_; }

    /// What stands in front of the key in a short call of the native module; "": it is not sent so.
    std::string_view shortBeginning() const { return shortBeginning_; }

  private:
    /// Where ScriptArguments writes to.
    struct Behind {
        void key(std::string_view) {}
        void argument(std::string_view argument) {
            appendArgument(settings.arguments_, argument);
            settings.count_++;
        }
        PlainSettings& settings;
    };

    bool hasOptionsOf(const Check& check) const {
        return tellsOptions(check) ? options_ == OptionsText::withoutCost(check).view() : options_.empty();
    }

    void write(const Check& check) {
        limit_ = kOfNoCheck;  // if memory is short meanwhile
        algorithm_ = check.algorithm;
        windowMs_ = check.windowMs;
        ttlMs_ = check.ttlMs;
        cost_ = check.cost;
        arguments_.clear();
        count_ = 0;
        Behind behind{*this};
        ScriptArguments<Behind> arguments(behind);
        if (check.cost != 1) {
            arguments.plainCost(check);
        }
        arguments.plain(check);
        options_.clear();
        shortBeginning_.clear();
        if (tellsOptions(check)) {
            options_ = OptionsText::withoutCost(check).view();
        } else if (hasShortCalls(rowOf(algorithm_))) {
            beginCommand(shortBeginning_, rowOf(algorithm_).namesEntries ? 4 : 3);
            appendArgument(shortBeginning_, kNativeCommand);
            appendArgument(shortBeginning_, std::string_view(shortSettings(check)));
        }
        limit_ = check.limit;
    }

    static constexpr std::int64_t kOfNoCheck = -1;

    Algorithm algorithm_ = Algorithm::Log;
    std::int64_t limit_ = kOfNoCheck;
    std::int64_t windowMs_ = 0;
    std::int64_t ttlMs_ = 0;
    std::int64_t cost_ = 0;
    std::size_t count_ = 0;
    std::string options_;
    std::string arguments_;
    std::string shortBeginning_;
};

}  // namespace sliding_log
