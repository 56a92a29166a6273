#include "use.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string_view>

#include "target.hpp"

namespace sliding_log::tool {

namespace {

using namespace std::string_view_literals;

/// That the scripts call for a block with several times, in addition.
constexpr std::array kBlockMemoryCommands = {"mget"sv, "set"sv, "del"sv};

bool canBlock(const Use& use) {
    return std::ranges::any_of(use.forms, [](const Form* form) { return takes(form->algorithm, Parameter::Block); });
}

std::vector<const Form*> formsIn(std::string_view list) {
    std::vector<const Form*> chosen;
    for (std::size_t at = 0; at <= list.size();) {
        const std::size_t end = std::min(list.find(',', at), list.size());
        const Form* form = formNamed(list.substr(at, end - at));
        if (form == nullptr) {
            std::string names;
            for (const Form& each : forms()) {
                names += (names.empty() ? "" : ", ") + std::string(each.name());
            }
            refuseValue(kAlgorithmsOption.name, list, "one or more of " + names + ", separated by commas");
        }
        chosen.push_back(form);
        at = end + 1;
    }
    return chosen;
}

/// Takes the limits of the store that is asked. If it has none, the forms stay empty, and blocks unknown.
void takeLimits(Use& use, const NginxSettings& nginx, const NginxStore& store) {
    bool blocks = false;
    bool escalates = false;
    std::set<std::string_view> algorithms;
    for (const auto& [name, limit] : nginx.limits()) {
        if (nginx.mayBeIn(limit, store.name)) {
            algorithms.insert(limit.algorithm);
            blocks = blocks || limit.blocks;
            escalates = escalates || limit.escalates;
            use.overrides = use.overrides || limit.obeysName;
        }
    }
    for (const Form& form : forms()) {
        if (algorithms.contains(form.name())) {
            use.forms.push_back(&form);
        }
    }
    if (!use.forms.empty()) {
        use.blocks = blocks;
        use.escalates = escalates;
    }
    const Directive* clock = store.find(StoreDirective::Clock);
    use.asksTime = clock == nullptr || clock->words.back() != "nginx";
}

}  // namespace

Use useOf(const Context& context) {
    Use use{context.settings.mode, context.settings.login.database, {}, std::nullopt, std::nullopt, false, true, false};
    if (context.store != nullptr) {
        takeLimits(use, *context.nginx, *context.store);
    }
    if (context.arguments.has(kAlgorithmsOption.name)) {
        use.forms = formsIn(context.arguments.text(kAlgorithmsOption.name));
    }
    use.overrides = use.overrides || context.arguments.has(kOverrideOption.name);
    use.areFormsKnown = !use.forms.empty();
    if (use.forms.empty()) {
        std::ranges::transform(forms(), std::back_inserter(use.forms), [](const Form& form) { return &form; });
    }
    return use;
}

bool requiresNative(const Context& context) {
    const Directive* native = context.store == nullptr ? nullptr : context.store->find(StoreDirective::Native);
    return native != nullptr && native->words.back() == "required";
}

bool mayEscalate(const Use& use) {
    return use.escalates.value_or(true) && canBlock(use);
}

std::string readOnlyKeys(std::string_view prefix, std::string_view beside) {
    return "%R~" + escapeGlob(prefix) + "*" + std::string(beside);
}

std::vector<Right> moduleRights(const Use& use) {
    std::vector<Right> rights = {{"evalsha"}, {"script|load"}};
    std::set<std::string_view> names;
    std::set<std::string_view> forBlock;
    for (const Form* form : use.forms) {
        names.insert(form->commands.begin(), form->commands.end());
        if (use.blocks.value_or(true)) {
            forBlock.insert(form->blockCommands.begin(), form->blockCommands.end());
        }
    }
    if (mayEscalate(use)) {
        forBlock.insert(kBlockMemoryCommands.begin(), kBlockMemoryCommands.end());
    }
    if (!use.asksTime) {
        names.erase("time");
    }
    if (use.overrides) {
        names.insert("get");
    }
    for (const std::string_view name : names) {
        rights.push_back({std::string(name)});
    }
    for (const std::string_view name : forBlock) {
        if (!names.contains(name)) {
            rights.push_back({std::string(name), use.blocks ? Right::For::All : Right::For::Block});
        }
    }
    if (use.database != 0) {
        rights.push_back({"select"});
    }
    switch (use.mode) {
        case Mode::Standalone:
            rights.push_back({"role", Right::For::Comfort});
            break;
        case Mode::Sentinel:
            rights.push_back({"role"});
            break;
        case Mode::Cluster:
            rights.push_back({"cluster|slots"});
            rights.push_back({"asking"});
            break;
    }
    rights.push_back({"config|get", Right::For::Comfort});
    rights.push_back({"info", Right::For::Comfort});
    return rights;
}

std::vector<Right> toolRights(const Use& use) {
    // the commands of inspect, top, reset, blocked, unblock, set, unset, overrides, export, size and doctor, for any
    // algorithm
    static constexpr std::array own = {"time",   "type", "pttl", "memory|usage", "scan", "multi", "exec", "watch",
                                       "unlink", "ping", "info", "zcount",       "mget", "get",   "set"};
    std::vector<Right> rights = moduleRights(use);
    std::erase_if(rights, [&](const Right& right) {
        return right.name == "config|get" || (right.name == "role" && use.mode == Mode::Standalone);
    });
    for (const char* name : own) {
        if (std::ranges::find(rights, name, &Right::name) == rights.end()) {
            rights.push_back({name});
        }
    }
    if (use.mode == Mode::Cluster) {
        rights.push_back({"cluster|info"});
        rights.push_back({"cluster|nodes"});
    }
    return rights;
}

}  // namespace sliding_log::tool
