#include "compare.hpp"

#include <array>
#include <set>
#include <string>
#include <string_view>

#include "limit/parameter.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

/// A parameter of sliding_log_limit or a directive of sliding_log_redis.
struct Compared {
    std::string_view name;
    std::string_view usual;  // if it is not given
    std::string_view means;  // of a difference, while both configurations are in use; empty: it is safe
};

constexpr std::array kParameters = {
    Compared{nameOf(Parameter::Algorithm), "log", "keys of the other kind are refused: use a new NAME"},
    Compared{nameOf(Parameter::Window), "none", "the longer one admits too many requests: use a new NAME"},
    Compared{nameOf(Parameter::Period), "none", "requests count in other periods: use a new NAME"},
    Compared{nameOf(Parameter::Lease), "30s",
             "too many requests are admitted: roll it out in steps of at most twice the lease or half"},
    Compared{nameOf(Parameter::Sample), "10", "entries count with another weight: use a new NAME"},
    Compared{nameOf(Parameter::Secret), "off", "keys have other names, so each has logs of its own"},
    Compared{nameOf(Parameter::Override), "off", "where it is off, records of set are not obeyed"},
    Compared{nameOf(Parameter::Delay), "0",
             "the shorter one takes reservations for entries: use a new NAME, or roll out the longest first"},
    Compared{nameOf(Parameter::Limit), "none", ""},
    Compared{nameOf(Parameter::Burst), "none", ""},
    Compared{nameOf(Parameter::Block), "0", ""},
    Compared{nameOf(Parameter::Cap), "the usual one", ""},
    Compared{nameOf(Parameter::Cost), "1", ""},
    Compared{nameOf(Parameter::Count), "allowed", ""},
    Compared{nameOf(Parameter::Settle), "none", ""},
};

constexpr std::string_view kOwnLogs = "each has logs of its own, and a client may use the limit in both";

constexpr std::array kDirectives = {
    Compared{nameOf(StoreDirective::Mode), "standalone", kOwnLogs},
    Compared{nameOf(StoreDirective::Server), "none", kOwnLogs},
    Compared{nameOf(StoreDirective::Database), "0", kOwnLogs},
    Compared{nameOf(StoreDirective::Prefix), "rl:sliding:", kOwnLogs},
    Compared{nameOf(StoreDirective::Clock), "redis", "the clock that is ahead counts"},
};

/// `1m` and `60s` are the same.
std::string comparable(const std::string& value) {
    const std::optional<std::int64_t> ms = parseTime(value);
    return ms ? std::to_string(*ms) : value;
}

std::set<std::string> comparable(const std::set<std::string>& values) {
    std::set<std::string> all;
    for (const std::string& value : values) {
        all.insert(comparable(value));
    }
    return all;
}

std::string textOf(const std::set<std::string>& values) {
    std::string text;
    for (const std::string& value : values) {
        text += (text.empty() ? "" : " or ") + printable(value);
    }
    return text;
}

class Comparison {
  public:
    Comparison(Findings& findings, const NginxSettings& here, const NginxSettings& there)
        : findings_(findings), here_(here), there_(there) {}

    void compare(const std::string& whose, const Compared& compared, const std::set<std::string>& here,
                 const std::set<std::string>& there) {
        if (comparable(here) == comparable(there)) {
            return;
        }
        findings_.add("compare", compared.means.empty() ? Status::Ok : Status::Warning,
                      whose + ": " + std::string(compared.name) + " is " + textOf(here) + " here, and " +
                          textOf(there) + " there; " +
                          std::string(compared.means.empty() ? "each node decides by its own" : compared.means));
        hasFound_ = true;
    }

    void limits() {
        for (const auto& [name, limit] : here_.limits()) {
            const NginxLimit* other = there_.limitNamed(name);
            const std::string whose = "limit \"" + printable(name) + "\"";
            if (other == nullptr) {
                isOnlyIn(whose, here_);
                continue;
            }
            for (const Compared& each : kParameters) {
                compare(whose, each, valuesOf(limit, each), valuesOf(*other, each));
            }
            compare(whose, {nameOf(Parameter::Store), "", kOwnLogs}, {std::string(here_.storeOf(limit))},
                    {std::string(there_.storeOf(*other))});
        }
        for (const auto& [name, limit] : there_.limits()) {
            if (here_.limitNamed(name) == nullptr) {
                isOnlyIn("limit \"" + printable(name) + "\"", there_);
            }
        }
    }

    void stores() {
        for (const NginxStore& store : here_.stores()) {
            if (const NginxStore* other = there_.storeNamed(store.name); other != nullptr) {
                for (const Compared& each : kDirectives) {
                    compare("store \"" + printable(store.name) + "\"", each, valuesOf(store, each),
                            valuesOf(*other, each));
                }
            }
        }
    }

    bool hasFound() const { return hasFound_; }

  private:
    static std::set<std::string> valuesOf(const NginxLimit& limit, const Compared& compared) {
        const auto found = limit.given.find(compared.name);
        return found == limit.given.end() ? std::set{std::string(compared.usual)} : found->second;
    }

    /// The servers of a cluster, and Sentinels, are only where it is asked for first.
    static std::set<std::string> valuesOf(const NginxStore& store, const Compared& compared) {
        std::set<std::string> values;
        if (compared.name == nameOf(StoreDirective::Server) && store.find(StoreDirective::Mode) != nullptr) {
            return {"those of the mode"};
        }
        for (const Directive& directive : store.directives) {
            if (directive.words[0] == compared.name) {
                std::string text;
                for (std::size_t i = 1; i < directive.words.size(); i++) {
                    text += (i == 1 ? "" : " ") + directive.words[i];
                }
                values.insert(text);
            }
        }
        return values.empty() ? std::set{std::string(compared.usual)} : values;
    }

    void isOnlyIn(const std::string& whose, const NginxSettings& settings) {
        findings_.add("compare", Status::Warning, whose + " is only in " + printable(settings.file()));
        hasFound_ = true;
    }

    Findings& findings_;
    const NginxSettings& here_;
    const NginxSettings& there_;
    bool hasFound_ = false;
};

}  // namespace

void compareNginx(Findings& findings, const NginxSettings& here, const NginxSettings& there) {
    findings.of(here.file() + " and " + there.file());
    Comparison comparison(findings, here, there);
    comparison.stores();
    comparison.limits();
    if (!comparison.hasFound()) {
        findings.add("compare", Status::Ok, "the limits and their stores are the same");
    }
}

}  // namespace sliding_log::tool
