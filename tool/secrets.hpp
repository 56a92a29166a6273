// Which limits have secret=on, by the command line or nginx's configuration.
#pragma once

#include <string>
#include <string_view>

#include "arguments.hpp"
#include "limit/key.hpp"
#include "nginx_settings.hpp"

namespace sliding_log::tool {

inline constexpr Option kSecretOption{"--secret", "", "VALUE is of a limit with secret=on; keys are shown shortened"};

class Secrets {
  public:
    /// All limits with `--secret all`, and those that have secret=on in nginx's configuration. `nginx`: nullptr if
    /// there is none.
    Secrets(const Arguments& arguments, const NginxSettings* nginx);

    /// Of the limit's values. Throws UsageError if a configuration was given that does not have the limit: whether a
    /// VALUE is hashed must not be guessed.
    Secrecy of(std::string_view limit) const;

    /// The key; of a secret value only eight digits of its hash are shown.
    std::string shown(std::string_view key, std::string_view prefix) const;

  private:
    bool areAll_;
    const NginxSettings* nginx_;
};

}  // namespace sliding_log::tool
