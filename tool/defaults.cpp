#include "defaults.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "connection_options.hpp"
#include "failure.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

const Option& optionOf(std::string_view word, std::span<const Option> known, const Place& place) {
    const auto option =
        std::ranges::find(known, word, [](const Option& each) { return each.name.substr(std::strlen("--")); });
    if (option == known.end()) {
        std::string names;
        for (const Option& each : known) {
            names += (names.empty() ? "" : ", ") + std::string(each.name.substr(std::strlen("--")));
        }
        throw UsageError(place.text() + ": unknown option \"" + printable(word) + "\", expected one of " + names);
    }
    return *option;
}

struct Given {
    std::vector<std::string> values;
    Origin origin;
};

void takeLine(std::string_view line, const Place& place, std::span<const Option> known,
              std::map<std::string_view, Given>& given) {
    const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
    const std::string_view value = trimmed(line.substr(word.size()));
    const Option& option = optionOf(word, known, place);
    if (value.empty() != option.value.empty()) {
        throw UsageError(place.text() + ": \"" + printable(line) + "\" " +
                         (value.empty()
                              ? "requires a value, expected " + std::string(word) + " " + std::string(option.value)
                              : "takes no value, expected " + std::string(word) + " alone"));
    }
    Given& all = given[option.name];
    if (!all.values.empty() && !option.isRepeatable) {
        throw UsageError(place.text() + ": \"" + printable(line) + "\" is a duplicate, expected " + std::string(word) +
                         " once: it is in line " + std::to_string(all.origin.place.line));
    }
    if (all.values.empty()) {
        all.origin = {place, std::string(word)};
    }
    all.values.emplace_back(value);
}

void add(Arguments& arguments, std::string_view option, const Directive* directive, std::string value) {
    if (directive != nullptr) {
        arguments.addDefault(option, {std::move(value)}, {directive->place, directive->words[0]});
    }
}

/// The words after the name of the directive; empty if there is no directive.
std::string argumentOf(const Directive* directive) {
    std::string text;
    for (std::size_t i = 1; directive != nullptr && i < directive->words.size(); i++) {
        text += (i == 1 ? "" : " ") + directive->words[i];
    }
    return text;
}

struct LoginDirectives {
    StoreDirective user;
    StoreDirective password;
    std::optional<StoreDirective> passwordFile;
};

/// A user and its password belong together: none is taken from nginx's configuration if an option gives one of them. If
/// the environment has the password, only the user is taken.
void addLogin(Arguments& arguments, const NginxSettings& nginx, const NginxStore& store, const LoginOptions& login,
              const LoginDirectives& directives) {
    if (arguments.has(login.user) || arguments.has(login.passwordFile)) {
        return;
    }
    const Directive* user = store.find(directives.user);
    add(arguments, login.user, user, argumentOf(user));
    if (std::getenv(login.passwordVariable) != nullptr) {
        return;
    }
    const Directive* password = store.find(directives.password);
    add(arguments, login.password, password, argumentOf(password));
    if (directives.passwordFile) {
        const Directive* file = store.find(*directives.passwordFile);
        add(arguments, login.passwordFile, file, besideMain(nginx.file(), argumentOf(file)));
    }
}

std::string namesOf(const std::vector<NginxStore>& stores) {
    std::string names;
    for (const NginxStore& each : stores) {
        names += (names.empty() ? "\"" : ", \"") + printable(each.name) + "\"";
    }
    return names;
}

std::vector<const NginxStore*> pointersTo(const std::vector<NginxStore>& stores) {
    std::vector<const NginxStore*> pointers;
    for (const NginxStore& each : stores) {
        pointers.push_back(&each);
    }
    return pointers;
}

}  // namespace

void addFileDefaults(Arguments& arguments, std::span<const Option> known) {
    const char* named = std::getenv("SLIDING_LOG_CONF");
    const std::string path = named == nullptr ? std::string(kDefaultsFile) : named;
    if (path.empty()) {
        return;
    }
    errno = 0;
    std::ifstream file(path);
    if (!file && errno == ENOENT && named == nullptr) {
        return;
    }
    std::map<std::string_view, Given> given;
    Place place{path};
    for (std::string text; std::getline(file, text);) {
        place.line++;
        const std::string_view line = trimmed(text);
        if (!line.empty() && !line.starts_with('#')) {
            takeLine(line, place, known, given);
        }
    }
    if (!file.eof()) {
        throw UsageError(printable(path) + " cannot be read" +
                         (errno == 0 ? "" : std::string(": ") + std::strerror(errno)));
    }
    for (auto& [option, all] : given) {
        arguments.addDefault(option, std::move(all.values), std::move(all.origin));
    }
}

std::vector<const NginxStore*> chosenStores(const NginxSettings& nginx, const Arguments& arguments,
                                            std::string_view limit, bool ofAllHomes) {
    if (arguments.has(kStoreOption)) {
        const NginxStore* store = nginx.storeNamed(arguments.text(kStoreOption));
        if (store == nullptr) {
            refuseValue(kStoreOption, arguments.text(kStoreOption),
                        nginx.stores().empty()
                            ? printable(nginx.file()) + " to have a sliding_log_redis of that name"
                            : "one of " + namesOf(nginx.stores()) + " of " + printable(nginx.file()));
        }
        return {store};
    }
    const NginxLimit* known = nginx.limitNamed(limit);
    if (known != nullptr && known->hasHomes() && ofAllHomes && !arguments.has("--server")) {
        return pointersTo(nginx.stores());
    }
    if (known != nullptr && !known->hasHomes()) {
        const std::string_view name = nginx.storeOf(*known);
        const NginxStore* store = nginx.storeNamed(name);
        if (store == nullptr && !arguments.has("--server")) {
            throw UsageError("limit \"" + printable(limit) + "\" has store=" + printable(name) + " in " +
                             printable(nginx.file()) +
                             (name == kLocalStore ? ": its logs are in the memory of nginx, not in Redis"
                                                  : ", which has no sliding_log_redis of that name"));
        }
        return store == nullptr ? std::vector<const NginxStore*>() : std::vector{store};
    }
    if (nginx.stores().size() > 1 && !arguments.has("--server")) {
        throw UsageError(printable(nginx.file()) + " has several sliding_log_redis: " + namesOf(nginx.stores()) +
                         "; expected --store with one of them");
    }
    if (nginx.stores().empty() && !arguments.has("--server")) {
        throw UsageError(printable(nginx.file()) + " has no sliding_log_redis, expected one, or --server");
    }
    return nginx.stores().size() == 1 ? pointersTo(nginx.stores()) : std::vector<const NginxStore*>();
}

void addStoreDefaults(Arguments& arguments, const NginxSettings& nginx, const NginxStore& store, bool withLogins) {
    std::vector<std::string> servers;
    Origin origin;
    for (const Directive& directive : store.directives) {
        if (directive.words[0] == nameOf(StoreDirective::Server)) {
            servers.insert(servers.end(), directive.words.begin() + 1, directive.words.end());
            origin = {directive.place, directive.words[0]};
        }
    }
    if (!servers.empty()) {
        arguments.addDefault("--server", std::move(servers), std::move(origin));
    }
    const auto takeText = [&](std::string_view option, StoreDirective name) {
        const Directive* directive = store.find(name);
        add(arguments, option, directive, argumentOf(directive));
    };
    const auto takeFile = [&](std::string_view option, StoreDirective name) {
        const Directive* directive = store.find(name);
        add(arguments, option, directive, besideMain(nginx.file(), argumentOf(directive)));
    };
    takeText("--mode", StoreDirective::Mode);
    takeText("--db", StoreDirective::Database);
    takeText("--prefix", StoreDirective::Prefix);
    if (const Directive* tls = store.find(StoreDirective::Tls); argumentOf(tls) == "on") {
        add(arguments, "--tls", tls, "");
        takeFile("--cacert", StoreDirective::TlsTrustedCertificate);
        takeFile("--cert", StoreDirective::TlsCertificate);
        takeFile("--key", StoreDirective::TlsCertificateKey);
        takeText("--sni", StoreDirective::TlsServerName);
        if (const Directive* verify = store.find(StoreDirective::TlsVerify); argumentOf(verify) == "off") {
            add(arguments, "--insecure", verify, "");
        }
    }
    if (withLogins) {
        addLogin(arguments, nginx, store, kRedisLogin,
                 {StoreDirective::Username, StoreDirective::Password, StoreDirective::PasswordFile});
        addLogin(arguments, nginx, store, kSentinelLogin,
                 {StoreDirective::SentinelUsername, StoreDirective::SentinelPassword, std::nullopt});
    }
}

}  // namespace sliding_log::tool
