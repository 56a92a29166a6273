#include "forms.hpp"

#include <algorithm>

#include "failure.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

const Form& formOf(Algorithm algorithm) {
    switch (algorithm) {
        case Algorithm::Log:
            return kLogForm;
        case Algorithm::Compact:
            return kCompactForm;
        case Algorithm::Counter:
            return kCounterForm;
        case Algorithm::Bucket:
            return kBucketForm;
        case Algorithm::Sampled:
            return kSampledForm;
        case Algorithm::Quota:
            return kQuotaForm;
        case Algorithm::Inflight:
            return kInflightForm;
    }
    __builtin_unreachable();
}

}  // namespace

std::string_view Form::type() const {
    switch (rowOf(algorithm).storage) {
        case Storage::Zset:
            return "zset";
        case Storage::String:
            return "string";
        case Storage::Hash:
            return "hash";
    }
    __builtin_unreachable();
}

std::span<const Form> forms() {
    static const std::vector<Form> all = [] {
        std::vector<Form> each;
        for (const AlgorithmRow& row : kAlgorithms) {
            each.push_back(formOf(row.algorithm));
        }
        return each;
    }();
    return all;
}

const Form* formOfType(std::string_view type) {
    const auto found = std::ranges::find(forms(), type, &Form::type);
    return found == forms().end() ? nullptr : &*found;
}

const Form* formOf(std::string_view type, ReplyView probed) {
    const auto found =
        std::ranges::find_if(forms(), [&](const Form& form) { return form.type() == type && form.matches(probed); });
    return found == forms().end() ? nullptr : &*found;
}

const Form* formNamed(std::string_view name) {
    const auto found = std::ranges::find(forms(), name, &Form::name);
    return found == forms().end() ? nullptr : &*found;
}

std::optional<std::int64_t> guessWindow(const ReadSettings& settings, std::int64_t setMs) {
    if (settings.ttlMs < 0) {
        return std::nullopt;
    }
    const std::int64_t ttl = settings.ttlMs + std::max<std::int64_t>(settings.nowMs - setMs, 0);
    const std::int64_t window = ttl * 10 / 11;  // slack= is 10 % of the window by default
    std::int64_t unit = 1;
    while (window / unit >= 1000) {
        unit *= 10;
    }
    return std::max<std::int64_t>((window + unit / 2) / unit * unit, 1);
}

std::string hintFor(ReplyView refusal) {
    return refusal.errorWord() == "NOPERM" ? "; sliding-log acl --for tool prints the rights that this tool needs" : "";
}

ReplyView checked(ReplyView reply, std::string_view what) {
    if (reply.isError()) {
        throw CouldNotAsk(std::string(what) + " answered: " + printable(reply.text()) + hintFor(reply));
    }
    return reply;
}

}  // namespace sliding_log::tool
