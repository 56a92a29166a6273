#include "conf/values.hpp"

#include <algorithm>
#include <string>

#include "conf/refuse.hpp"

namespace sliding_log {

ngx_conf_enum_t gSwitch[] = {
    {ngx_string("off"), 0},
    {ngx_string("on"), 1},
    {ngx_null_string, 0},
};

std::optional<std::int64_t> parseTime(const ngx_str_t& text, std::int64_t leastMs) {
    ngx_str_t copy = text;
    const std::int64_t ms = text.len == 0 ? NGX_ERROR : ngx_parse_time(&copy, 0);
    if (ms < leastMs || ms > kLongestTimeMs) {
        return std::nullopt;
    }
    return ms;
}

bool usesVariable(std::string_view text, const std::function<bool(std::string_view name)>& isMeant) {
    const auto isOfName = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    for (std::size_t dollar = text.find('$'); dollar != std::string_view::npos; dollar = text.find('$', dollar + 1)) {
        std::string_view rest = text.substr(dollar + 1);
        rest.remove_prefix(rest.starts_with('{') ? 1 : 0);
        std::string name(rest.begin(), std::ranges::find_if_not(rest, isOfName));
        std::ranges::transform(name, name.begin(), [](char c) { return static_cast<char>(ngx_tolower(c)); });
        if (isMeant(name)) {
            return true;
        }
    }
    return false;
}

bool isWord(const ngx_str_t& text, std::string_view word) {
    return text.len == word.size() && ngx_strncasecmp(text.data, toNgx(word).data, word.size()) == 0;
}

char* setChoice(ngx_conf_t* cf, ngx_command_t* cmd, void* conf) {
    auto& field = *reinterpret_cast<ngx_uint_t*>(static_cast<char*>(conf) + cmd->offset);
    if (field != NGX_CONF_UNSET_UINT) {
        return refuseDuplicate(cf, view(cmd->name));
    }
    const ngx_str_t& word = static_cast<ngx_str_t*>(cf->args->elts)[1];
    std::string expected;
    for (const auto* choice = static_cast<const ngx_conf_enum_t*>(cmd->post); choice->name.len > 0; choice++) {
        if (isWord(word, view(choice->name))) {
            field = choice->value;
            return kConfOk;
        }
        expected.append(expected.empty() ? "" : " or ").append(view(choice->name));
    }
    return refuse(cf, view(cmd->name), "value", view(word), expected);
}

}  // namespace sliding_log
