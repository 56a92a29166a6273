#include "connection_options.hpp"

#include <array>
#include <cstdlib>
#include <iterator>

#include "failure.hpp"
#include "password.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

constexpr std::string_view kSentinelMode = "sentinel";

constexpr std::array kAll = {
    Option{kNginxConfOption, "FILE", "nginx's configuration, with the sliding_log_redis and limits"},
    Option{kStoreOption, "NAME", "the sliding_log_redis block, if there are several; the store of the limit"},
    Option{"--server", "HOST[:PORT]", "or [IPv6]:PORT, or unix:/path; repeatable (cluster seeds, Sentinels); 127.0.0.1",
           "", true},
    Option{"--mode", "MODE", "standalone, cluster, or sentinel MASTER", kSentinelMode},
    Option{"--user", "NAME", "ACL user; the password comes from --password-file or SLIDING_LOG_PASSWORD"},
    Option{"--password-file", "FILE", "a file with the password in its first line"},
    Option{"--sentinel-user", "NAME",
           "ACL user of the Sentinels; password: next option or SLIDING_LOG_SENTINEL_PASSWORD"},
    Option{"--sentinel-password-file", "FILE", "a file with the password for the Sentinels"},
    Option{"--db", "N", "database; 0"},
    Option{"--prefix", "TEXT", "the beginning of every key; rl:sliding:"},
    Option{"--timeout", "TIME", "for connecting and for each reply; 5s"},
    Option{"--tls", "", "use TLS, and verify the certificate of the server"},
    Option{"--cacert", "FILE", "trusted CA certificates; those of the system"},
    Option{"--cert", "FILE", "the client certificate"},
    Option{"--key", "FILE", "the key of the client certificate"},
    Option{"--sni", "NAME", "the name in the certificate of the server; the host connected to"},
    Option{"--insecure", "", "do not verify the certificate of the server"},
};

constexpr int kPort = 6379;
constexpr int kSentinelPort = 26379;

Endpoint parseServer(const std::string& text, int defaultPort) {
    constexpr std::string_view expected = "HOST[:PORT], [IPv6][:PORT] or unix:/path";
    if (text.starts_with("unix:")) {
        if (text.size() == 5) {
            refuseValue("--server", text, expected);
        }
        return {"", 0, text.substr(5), ""};
    }
    std::string host = text;
    int port = defaultPort;
    const std::size_t bracket = text.starts_with('[') ? text.find(']') : 0;
    const std::size_t colon = bracket == std::string::npos ? bracket : text.find(':', bracket);
    if (colon != std::string::npos) {
        const std::optional<int> given = parsePort(std::string_view(text).substr(colon + 1));
        if (!given) {
            refuseValue("--server", text, expected);
        }
        port = *given;
        host = text.substr(0, colon);
    }
    if (host.starts_with('[') && host.ends_with(']')) {
        host = host.substr(1, host.size() - 2);
    }
    if (!isHost(host)) {
        refuseValue("--server", text, expected);
    }
    return {host, port, "", host};
}

/// From the file, otherwise from the environment, otherwise from nginx's configuration; never from the command line,
/// which every user of the machine can read.
std::shared_ptr<Password> password(const Arguments& arguments, const LoginOptions& login) {
    if (arguments.has(login.passwordFile)) {
        return std::make_shared<Password>(Password::ofFile(arguments.text(login.passwordFile), login.passwordFile));
    }
    const char* value = std::getenv(login.passwordVariable);
    return std::make_shared<Password>(value == nullptr ? arguments.text(login.password) : value);
}

void makeTls(const Arguments& arguments, std::optional<Tls>& tls) {
    if (!Tls::kSupported) {
        throw InvalidValue("--tls", "is not possible: this tool was " + Tls::builtWithout());
    }
    tls.emplace(!arguments.has("--insecure"), arguments.text("--sni"));
    const auto read = [&](std::string_view option, std::string_view expected, auto how) {
        if (arguments.has(option)) {
            const std::string complaint = how(arguments.text(option).c_str());
            if (!complaint.empty()) {
                refuseValue(option, arguments.text(option), std::string(expected) + ": " + complaint);
            }
        }
    };
    read("--cacert", "a PEM file of CA certificates", [&](const char* path) { return tls->trust(path); });
    read("--cert", "a PEM file of a certificate", [&](const char* path) { return tls->useCertificate(path); });
    read("--key", "a PEM file of the certificate's key", [&](const char* path) { return tls->useKey(path); });
    if (!arguments.has("--cacert") && !arguments.has("--insecure") && !tls->trustSystem()) {
        throw InvalidValue("--tls", "needs \"--cacert\": this system has no CA certificates");
    }
}

}  // namespace

const std::span<const Option> kConnectionOptions(kAll);

StoreSettings storeAddress(const Arguments& arguments) {
    StoreSettings settings;
    const std::string mode = arguments.text("--mode", "standalone");
    if (mode == "cluster") {
        settings.mode = Mode::Cluster;
    } else if (mode.starts_with(kSentinelMode) && mode.size() > kSentinelMode.size() + 1 &&
               mode[kSentinelMode.size()] == ' ') {
        settings.mode = Mode::Sentinel;
        settings.master = mode.substr(kSentinelMode.size() + 1);
    } else if (mode != "standalone") {
        refuseValue("--mode", mode, "standalone, cluster or sentinel MASTER");
    }
    const int port = settings.mode == Mode::Sentinel ? kSentinelPort : kPort;
    for (const std::string& server : arguments.texts("--server")) {
        settings.servers.push_back(parseServer(server, port));
    }
    if (settings.servers.empty()) {
        settings.servers.push_back({"127.0.0.1", port, "", "127.0.0.1"});
    }
    if (settings.mode == Mode::Standalone && settings.servers.size() > 1) {
        throw InvalidValue("--server", "is given more than once, expected once in mode standalone");
    }
    settings.login.database = static_cast<int>(arguments.count("--db", 0, 0, 1'000'000));
    if (settings.login.database != 0 && settings.mode == Mode::Cluster) {
        refuseValue("--db", arguments.text("--db"), "0 in mode cluster");
    }
    return settings;
}

StoreSettings storeSettings(const Arguments& arguments, std::optional<Tls>& tls) {
    StoreSettings settings = storeAddress(arguments);
    Login& login = settings.login;
    login.timeoutMs = static_cast<int>(std::min<std::int64_t>(arguments.time("--timeout", 5000), 3'600'000));
    login.username = arguments.text(kRedisLogin.user);
    login.password = password(arguments, kRedisLogin);
    for (const std::string_view option : {"--cacert", "--cert", "--key", "--sni", "--insecure"}) {
        if (arguments.has(option) && !arguments.has("--tls")) {
            throw InvalidValue(std::string(option), "needs \"--tls\"");
        }
    }
    if (arguments.has("--tls")) {
        makeTls(arguments, tls);
        login.tls = &*tls;
    }
    settings.sentinelLogin = login;
    settings.sentinelLogin.database = 0;
    settings.sentinelLogin.username = arguments.text(kSentinelLogin.user);
    settings.sentinelLogin.password = password(arguments, kSentinelLogin);
    return settings;
}

}  // namespace sliding_log::tool
