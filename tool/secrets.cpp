#include "secrets.hpp"

#include "failure.hpp"
#include "text.hpp"

namespace sliding_log::tool {

Secrets::Secrets(const Arguments& arguments, const NginxSettings* nginx)
    : areAll_(arguments.has(kSecretOption.name)), nginx_(nginx) {}

Secrecy Secrets::of(std::string_view limit) const {
    if (areAll_ || nginx_ == nullptr) {
        return areAll_ ? Secrecy::Secret : Secrecy::Open;
    }
    const NginxLimit* known = nginx_->limitNamed(limit);
    if (known == nullptr) {
        throw UsageError(printable(nginx_->file()) + " has no sliding_log_limit " + printable(limit));
    }
    return known->secrecy;
}

std::string Secrets::shown(std::string_view key, std::string_view prefix) const {
    const std::size_t brace = key.find(":{", prefix.size());
    if (!key.starts_with(prefix) || brace == std::string_view::npos) {
        return std::string(key);
    }
    const std::string_view limit = key.substr(prefix.size(), brace - prefix.size());
    const NginxLimit* known = nginx_ == nullptr ? nullptr : nginx_->limitNamed(limit);
    const bool isSecret = areAll_ || (known != nullptr && known->secrecy == Secrecy::Secret);
    const std::string_view begin = key.substr(0, brace + 2);
    const std::string_view value = valueIn(key.substr(prefix.size()), limit);
    return isSecret && value.starts_with(kHashMark)
               ? std::string(begin).append(shownValue(value, Secrecy::Secret)).append("}")
               : std::string(key);
}

}  // namespace sliding_log::tool
