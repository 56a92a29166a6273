// The options of the address and the logins of Redis.
#pragma once

#include <optional>
#include <span>

#include "arguments.hpp"
#include "redis/tls.hpp"
#include "store.hpp"

namespace sliding_log::tool {

/// For every command.
extern const std::span<const Option> kConnectionOptions;

inline constexpr std::string_view kNginxConfOption = "--nginx-conf";
inline constexpr std::string_view kStoreOption = "--store";

/// The options of the login at the Redis, or at the Sentinels.
struct LoginOptions {
    std::string_view user;
    std::string_view password;  // not on the command line: only a default from nginx's configuration
    std::string_view passwordFile;
    const char* passwordVariable;  // of the environment
};

inline constexpr LoginOptions kRedisLogin = {"--user", "password", "--password-file", "SLIDING_LOG_PASSWORD"};
inline constexpr LoginOptions kSentinelLogin = {"--sentinel-user", "sentinel_password", "--sentinel-password-file",
                                                "SLIDING_LOG_SENTINEL_PASSWORD"};

inline constexpr std::string_view kUsualPrefix = "rl:sliding:";

/// The address: servers, mode, database. Reads no file. Throws UsageError.
StoreSettings storeAddress(const Arguments& arguments);

/// The settings that the options give. `tls` owns what the settings refer to. Throws UsageError.
StoreSettings storeSettings(const Arguments& arguments, std::optional<Tls>& tls);

}  // namespace sliding_log::tool
