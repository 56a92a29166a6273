// Checks that outlive their request.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "limit/check.hpp"

namespace sliding_log {

/// Copies of checks with their texts. The memory is reused; it stays where it is when they are moved.
class CheckCopies {
  public:
    CheckCopies() = default;
    explicit CheckCopies(const Check& check) { assign({&check, 1}); }
    CheckCopies(CheckCopies&&) = default;
    CheckCopies& operator=(CheckCopies&&) = default;
    CheckCopies(const CheckCopies&) = delete;
    CheckCopies& operator=(const CheckCopies&) = delete;
    ~CheckCopies() = default;

    void assign(std::span<const Check> checks) {
        texts_.clear();
        for (const Check& check : checks) {
            texts_.insert(texts_.end(), check.key.begin(), check.key.end());
            texts_.insert(texts_.end(), check.id.begin(), check.id.end());
            texts_.insert(texts_.end(), check.keyInNode.begin(), check.keyInNode.end());
        }
        checks_.assign(checks.begin(), checks.end());
        std::string_view rest(texts_.data(), texts_.size());
        for (Check& check : checks_) {
            for (std::string_view* text : {&check.key, &check.id, &check.keyInNode}) {
                *text = rest.substr(0, text->size());
                rest.remove_prefix(text->size());
            }
        }
    }

    void clear() { checks_.clear(); }

    std::span<Check> all() { return checks_; }
    std::span<const Check> all() const { return checks_; }

  private:
    std::vector<Check> checks_;
    std::vector<char> texts_;
};

}  // namespace sliding_log
