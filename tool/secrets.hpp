// Which limits have secret=on, as the command line tells.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "arguments.hpp"
#include "limit/key.hpp"

namespace sliding_log::tool {

inline constexpr Option kSecretOption{"--secret", "", "VALUE is of a limit with secret=on; keys are shown shortened"};
inline constexpr Option kNginxConfOption{"--nginx-conf", "FILE",
                                         "nginx's configuration, which tells the limits that have secret=on"};

class Secrets {
  public:
    /// By --secret all, by --nginx-conf those that have it there. Throws UsageError, also for a bad configuration.
    explicit Secrets(const Arguments& arguments);

    /// Of the limit's values. Throws UsageError where a configuration was given that has no such limit: whether a VALUE
    /// is hashed must not be a guess.
    Secrecy of(std::string_view limit) const;

    /// The key, of which nothing but eight digits is shown where it was made of a secret.
    std::string shown(std::string_view key, std::string_view prefix) const;

  private:
    bool areAll_;
    std::string file_;                                    // empty: none was given
    std::map<std::string, Secrecy, std::less<>> limits_;  // that the file has
};

}  // namespace sliding_log::tool
