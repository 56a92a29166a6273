// Which limits have secret=on, as the command line or nginx's configuration tells.
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
    /// By --secret all, by nginx's configuration those that have it there. `nginx`: nullptr without one.
    Secrets(const Arguments& arguments, const NginxSettings* nginx);

    /// Of the limit's values. Throws UsageError where a configuration was given that has no such limit: whether a VALUE
    /// is hashed must not be a guess.
    Secrecy of(std::string_view limit) const;

    /// The key, of which nothing but eight digits is shown where it was made of a secret.
    std::string shown(std::string_view key, std::string_view prefix) const;

  private:
    bool areAll_;
    const NginxSettings* nginx_;
};

}  // namespace sliding_log::tool
