// sliding-log: inspects the logs of nginx's sliding_log_limit in Redis. docs/sliding-log.1 is its manual.
#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <optional>
#include <vector>

#include "command.hpp"
#include "connection_options.hpp"
#include "defaults.hpp"
#include "interrupt.hpp"
#include "limit/key.hpp"
#include "near.hpp"
#include "nginx_settings.hpp"
#include "table.hpp"
#include "target.hpp"
#include "text.hpp"
#include "version.hpp"

namespace sliding_log::tool {

void print(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
        throw CouldNotWrite("standard output cannot be written");
    }
}

const NginxLimit* Context::limitOf(std::string_view nameOrKey) const {
    const bool isKey = nameOrKey.starts_with(prefix) && nameOrKey.find(":{") != std::string_view::npos;
    return nginx == nullptr ? nullptr : nginx->limitNamed(isKey ? nameIn(nameOrKey.substr(prefix.size())) : nameOrKey);
}

namespace {

const std::array kToolCommands = {&kSize,    &kDoctor, &kInspect, &kTop,       &kReset,  &kBlocked,
                                  &kUnblock, &kSet,    &kUnset,   &kOverrides, &kExport, &kAcl};

constexpr std::array kEverywhere = {
    Option{"--json", "", "JSON instead of tables"},
    kHelpOption,
};

std::vector<Option> everywhere() {
    std::vector<Option> options(kConnectionOptions.begin(), kConnectionOptions.end());
    options.insert(options.end(), kEverywhere.begin(), kEverywhere.end());
    return options;
}

std::string optionRows(std::span<const Option> options) {
    Table table({{""}, {""}});
    for (const Option& option : options) {
        table.row({"  " + std::string(option.name) + (option.value.empty() ? "" : " " + std::string(option.value)),
                   std::string(option.help)});
    }
    return table.text();
}

std::string usage() {
    Table table({{""}, {""}});
    for (const ToolCommand* command : kToolCommands) {
        table.row({"  " + std::string(command->name) +
                       (command->operands.empty() ? "" : " " + std::string(command->operands)),
                   std::string(command->help)});
    }
    return "usage: sliding-log COMMAND [OPTION]...\n       sliding-log --version\n\n" + table.text() +
           "\nsliding-log COMMAND --help shows its options. Options for all commands; all but the last two may also "
           "be in\n" +
           std::string(kDefaultsFile) + ", one per line, without dashes:\n\n" + optionRows(everywhere());
}

/// The NAME in the words of the command; empty: none, or a whole key.
std::string_view limitIn(const ToolCommand& command, const Arguments& arguments) {
    const bool isAboutOne = command.operands.find("NAME") != std::string_view::npos && !arguments.words().empty();
    return isAboutOne && isName(arguments.words()[0]) ? std::string_view(arguments.words()[0]) : std::string_view();
}

/// Asks the Redis of one block; nullptr: the one that the options name.
Status runFor(const ToolCommand& command, Arguments& arguments, const NginxSettings* nginx, const NginxStore* store,
              bool isOneOfSeveral) {
    if (store != nullptr) {
        addStoreDefaults(arguments, *nginx, *store, command.asksRedis);
    }
    std::optional<Tls> tls;
    const StoreSettings settings = command.asksRedis ? storeSettings(arguments, tls) : storeAddress(arguments);
    const Status status =
        command.run({settings, arguments, arguments.text("--prefix", kUsualPrefix), arguments.has("--json"),
                     Secrets(arguments, nginx), nginx, store, isOneOfSeveral});
    if (std::fflush(stdout) != 0) {
        throw CouldNotWrite("standard output cannot be written");
    }
    return status;
}

/// Errors in a default are reported with its file and line.
template <typename Run>
Status tellingOrigins(const Arguments& arguments, Run run) {
    try {
        return run();
    } catch (const InvalidValue& invalid) {
        const Origin* origin = arguments.originOf(invalid.option);
        if (origin == nullptr) {
            throw;
        }
        throw UsageError(origin->place.text() + ": \"" + origin->word + "\" " + invalid.complaint);
    }
}

int complain(std::string_view message) {
    std::fprintf(stderr, "sliding-log: %s\n", std::string(message).c_str());
    return static_cast<int>(Status::CouldNotAsk);
}

/// One that cannot be asked does not keep the command from the others. The result is the worst one.
Status runForEach(const ToolCommand& command, const Arguments& arguments, const NginxSettings& nginx,
                  std::span<const NginxStore* const> stores) {
    Status worst = Status::Ok;
    for (const NginxStore* store : stores) {
        const std::string name = "store \"" + printable(store->name) + "\"";
        if (!arguments.has("--json")) {
            print(name + ":\n");
        }
        Status status = Status::Ok;
        try {
            Arguments ofThis = arguments;
            status = tellingOrigins(ofThis, [&] { return runFor(command, ofThis, &nginx, store, true); });
        } catch (const CouldNotAsk& failure) {
            complain(name + ": " + failure.what());
            status = Status::CouldNotAsk;
        }
        worst = std::max(worst, status);
    }
    return worst;
}

Status runWith(const ToolCommand& command, Arguments& arguments) {
    addFileDefaults(arguments, kConnectionOptions);
    noteInterrupts();
    if (!arguments.has(kNginxConfOption)) {
        if (arguments.has(kStoreOption)) {
            throw InvalidValue(std::string(kStoreOption), "needs \"--nginx-conf\"");
        }
        return runFor(command, arguments, nullptr, nullptr, false);
    }
    const NginxSettings nginx(arguments.text(kNginxConfOption));
    const bool ofAllHomes = command.isOfAllHomes != nullptr && command.isOfAllHomes(arguments);
    const std::vector<const NginxStore*> stores =
        chosenStores(nginx, arguments, limitIn(command, arguments), ofAllHomes);
    return stores.size() > 1 ? runForEach(command, arguments, nginx, stores)
                             : runFor(command, arguments, &nginx, stores.empty() ? nullptr : stores.front(), false);
}

const ToolCommand* commandNamed(std::string_view name) {
    const auto* const found = std::ranges::find(kToolCommands, name, &ToolCommand::name);
    return found == kToolCommands.end() ? nullptr : *found;
}

const ToolCommand& knownCommand(std::string_view name) {
    const ToolCommand* command = commandNamed(name);
    if (command == nullptr) {
        std::vector<std::string_view> names;
        std::ranges::transform(kToolCommands, std::back_inserter(names), &ToolCommand::name);
        throw UsageError("unknown command \"" + printable(name) + "\"" + didYouMean(name, names) +
                         "; see sliding-log --help");
    }
    return *command;
}

std::string usageOf(const ToolCommand& command) {
    return "usage: sliding-log " + std::string(command.name) + (command.operands.empty() ? "" : " ") +
           std::string(command.operands) + " [OPTION]...\n" + std::string(command.help) + "\n\n" +
           optionRows(command.options) + "\nand the options for all commands, as in sliding-log --help.\n";
}

Status run(std::span<const std::string_view> words) {
    if (words.empty()) {
        throw UsageError("a command is missing; see sliding-log --help");
    }
    const std::string_view first = words.front();
    if (first == kHelpOption.name || first == kShortHelp || first == "help") {
        print(first == "help" && words.size() > 1 ? usageOf(knownCommand(words[1])) : usage());
        return Status::Ok;
    }
    if (first == "--version") {
        print("sliding-log " + std::string(kVersion) + "\n");
        return Status::Ok;
    }
    const ToolCommand& command = knownCommand(first);
    std::vector<Option> known = everywhere();
    known.insert(known.end(), command.options.begin(), command.options.end());
    Arguments arguments(words.subspan(1), known);
    if (arguments.has(kHelpOption.name)) {
        print(usageOf(command));
        return Status::Ok;
    }
    return tellingOrigins(arguments, [&] { return runWith(command, arguments); });
}

}  // namespace

}  // namespace sliding_log::tool

int main(int count, char** words) {
    using namespace sliding_log::tool;
    try {
        const std::vector<std::string_view> all(words + std::min(count, 1), words + count);
        return static_cast<int>(run(all));
    } catch (const Interrupted& interrupted) {
        complain(interrupted.what());
        return 130;  // as a shell reports SIGINT
    } catch (const std::exception& failure) {
        return complain(failure.what());
    }
}
