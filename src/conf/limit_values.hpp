// The values of sliding_log_limit's parameters, one function each: it reads the value into the draft, or refuses it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "conf/limit_draft.hpp"
#include "conf/refuse.hpp"
#include "limit/algorithm.hpp"

namespace sliding_log {

inline char* refuseValue(ngx_conf_t* cf, Parameter parameter, std::string_view given, std::string_view expected) {
    return refuse(cf, kLimitDirective, nameOf(parameter), given, expected);
}

/// `one, other or third`: the names of the algorithms for which the predicate is true.
template <typename Which>
std::string namesOf(Which isOne) {
    std::vector<std::string_view> names;
    for (const AlgorithmRow& row : kAlgorithms) {
        if (isOne(row)) {
            names.push_back(row.name);
        }
    }
    std::string list;
    for (std::size_t i = 0; i < names.size(); i++) {
        list.append(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ").append(names[i]);
    }
    return list;
}

char* setKey(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setLimitNumber(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setWindow(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setPeriod(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setLease(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setCap(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setSlack(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setAlgorithm(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setId(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setCounted(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setCost(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setRefund(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setDelay(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setBlock(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setBurst(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setSample(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setPrefetch(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setSettle(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setStore(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setExcess(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setSecret(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setDryRun(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);
char* setOverride(ngx_conf_t* cf, LimitDraft& draft, ngx_str_t& value);

}  // namespace sliding_log
