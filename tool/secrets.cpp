#include "secrets.hpp"

#include <algorithm>

#include "failure.hpp"
#include "nginx_conf.hpp"
#include "text.hpp"

namespace sliding_log::tool {

Secrets::Secrets(const Arguments& arguments)
    : areAll_(arguments.has(kSecretOption.name)), file_(arguments.text(kNginxConfOption.name)) {
    if (!arguments.has(kNginxConfOption.name)) {
        return;
    }
    const bool isRead = readNginxConf(file_, [this](const Words& words) {
        if (words[0] == "sliding_log_limit" && words.size() > 2) {
            limits_[words[1]] = std::ranges::count(words, "secret=on") > 0 ? Secrecy::Secret : Secrecy::Open;
        }
    });
    if (!isRead) {
        refuseValue(kNginxConfOption.name, file_, "a readable file");
    }
}

Secrecy Secrets::of(std::string_view limit) const {
    if (areAll_ || file_.empty()) {
        return areAll_ ? Secrecy::Secret : Secrecy::Open;
    }
    const auto found = limits_.find(limit);
    if (found == limits_.end()) {
        throw UsageError(printable(file_) + " has no sliding_log_limit " + printable(limit));
    }
    return found->second;
}

std::string Secrets::shown(std::string_view key, std::string_view prefix) const {
    const std::size_t brace = key.find(":{", prefix.size());
    if (!key.starts_with(prefix) || brace == std::string_view::npos) {
        return std::string(key);
    }
    const std::string_view limit = key.substr(prefix.size(), brace - prefix.size());
    const auto found = limits_.find(limit);
    const bool isSecret = areAll_ || (found != limits_.end() && found->second == Secrecy::Secret);
    const std::string_view begin = key.substr(0, brace + 2);
    const std::string_view value = valueIn(key.substr(prefix.size()), limit);
    return isSecret && value.starts_with(kHashMark)
               ? std::string(begin).append(shownValue(value, Secrecy::Secret)).append("}")
               : std::string(key);
}

}  // namespace sliding_log::tool
