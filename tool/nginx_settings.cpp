#include "nginx_settings.hpp"

#include <algorithm>
#include <utility>

#include "arguments.hpp"
#include "limit/calendar.hpp"
#include "limit/number.hpp"
#include "text.hpp"

namespace sliding_log::tool {

std::optional<std::int64_t> SharedNumber::value() const {
    return texts_.size() == 1 ? parseCount(*texts_.begin()) : std::nullopt;
}

const Directive* NginxStore::find(StoreDirective directive) const {
    const auto found = std::ranges::find(directives, nameOf(directive),
                                         [](const Directive& each) -> std::string_view { return each.words[0]; });
    return found == directives.end() ? nullptr : &*found;
}

NginxSettings::NginxSettings(std::string file) : file_(std::move(file)) {
    if (!readNginxConf(file_, [this](const Directive& directive) { take(directive); })) {
        refuseValue("--nginx-conf", file_, "a readable file");
    }
}

const NginxStore* NginxSettings::storeNamed(std::string_view name) const {
    const auto found = std::ranges::find(stores_, name, &NginxStore::name);
    return found == stores_.end() ? nullptr : &*found;
}

const NginxLimit* NginxSettings::limitNamed(std::string_view name) const {
    const auto found = limits_.find(name);
    return found == limits_.end() ? nullptr : &found->second;
}

std::string_view NginxSettings::storeOf(const NginxLimit& limit) const {
    if (!limit.store.empty()) {
        return limit.store;
    }
    return stores_.empty() ? kLocalStore : std::string_view(stores_.front().name);
}

void NginxSettings::take(const Directive& directive) {
    const Words& words = directive.words;
    if (directive.block != nullptr && directive.block->words[0] == "sliding_log_redis") {
        stores_.back().directives.push_back({words, directive.place});
    } else if (words[0] == "sliding_log_redis") {
        stores_.push_back({words.size() > 1 ? words[1] : std::string(kDefaultStore), {}});
    } else if (words[0] == "sliding_log_limit" && words.size() > 2) {
        takeLimit(words);
    }
}

void NginxSettings::takeLimit(const Words& words) {
    NginxLimit& limit = limits_[words[1]];
    for (std::size_t i = 2; i < words.size(); i++) {
        const std::string_view word = words[i];
        const std::size_t equals = std::min(word.find('='), word.size());
        const std::string_view name = word.substr(0, equals);
        const std::string_view value = word.substr(std::min(equals + 1, word.size()));
        const auto is = [name](Parameter parameter) { return name == nameOf(parameter); };
        limit.given[std::string(name)].emplace(value);
        if (is(Parameter::Secret)) {
            limit.secrecy = value == "on" ? Secrecy::Secret : Secrecy::Open;
        } else if (is(Parameter::Algorithm)) {
            limit.algorithm = value;
        } else if (is(Parameter::Store)) {
            limit.store = value;
        } else if (is(Parameter::Window) || is(Parameter::Lease)) {
            limit.windowMs = parseTime(value);
        } else if (is(Parameter::Period)) {
            limit.windowMs = periodNamed(value);
        } else if (is(Parameter::Sample)) {
            limit.sample = parseCount(value).value_or(limit.sample);
        } else if (is(Parameter::Limit)) {
            limit.limit.add(value);
        } else if (is(Parameter::Burst)) {
            limit.burst.add(value);
        } else if (is(Parameter::Block)) {
            limit.blocks = limit.blocks || parseTime(value) != 0;
            limit.escalates = limit.escalates || value.find(',') != std::string_view::npos;
        } else if (is(Parameter::Override)) {
            limit.obeysKeys = value == "on";
            limit.obeysName = limit.obeysKeys || value == "name";
        }
    }
}

}  // namespace sliding_log::tool
