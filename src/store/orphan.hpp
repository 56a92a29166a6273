// A question whose request does not wait for the reply any more: the client has left, or it has timed out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/group.hpp"

namespace sliding_log {

struct Orphan;

/// What a request that continues without a reply knows of it: whether its entries were logged. It is owned by the
/// request, which detaches it when it ends.
struct Late {
    enum class State {
        Open,    // not known yet
        Logged,  // at loggedMs
        Void,    // not logged
        Unknown  // will never be known
    };

    explicit Late(Orphan& of);
    void forget();

    State state = State::Open;
    std::uint64_t loggedMs = 0;
    Orphan* orphan;        // while Open
    Late* next = nullptr;  // of the same request
};

/// Replaces the request in its group, with copies of the data of the request, so that its entries can be taken back if
/// they were logged. It is owned by its store and reused.
struct Orphan final : Waiter {
    /// Replaces a waiter whose group has been sent.
    void replace(Waiter& waiter) {
        texts.assign(waiter.unique);
        for (const Question& question : waiter.questions) {
            texts.append(question.key).append(question.id);
        }
        std::string_view rest = texts;
        unique = cut(rest, waiter.unique.size());
        copies.assign(waiter.questions.begin(), waiter.questions.end());
        for (Question& question : copies) {
            question.key = cut(rest, question.key.size());
            question.id = cut(rest, question.id.size());
        }
        answers.assign(copies.size(), {});
        leaving.assign(copies.size(), false);
        questions = copies;
        verdicts = answers;
        place = waiter.place;
        apart = false;
        deadline = waiter.deadline;
        group = waiter.group;
        group->orphans.pushBack(*this);
        late = nullptr;
        waiter.forget();
    }

    /// Its entry in that log has to be removed.
    void leave(std::string_view key) {
        const auto copy = std::ranges::find(copies, key, &Question::key);
        leaving[static_cast<std::size_t>(copy - copies.begin())] = true;
    }

    /// The questions whose entries have to be removed, or all.
    std::span<const Question> leavers(bool all) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < copies.size(); i++) {
            if (all || leaving[i]) {
                copies[kept++] = copies[i];
            }
        }
        return std::span(copies).first(kept);
    }

    Late* late = nullptr;  // to be informed
    bool isOwed = false;   // some of its entries have to be removed

    std::string texts;
    std::vector<Question> copies;
    std::vector<Verdict> answers;
    std::vector<bool> leaving;

  private:
    static std::string_view cut(std::string_view& rest, std::size_t length) {
        const std::string_view first = rest.substr(0, length);
        rest.remove_prefix(length);
        return first;
    }
};

inline Late::Late(Orphan& of) : orphan(&of) {
    of.late = this;
}

inline void Late::forget() {
    if (state == State::Open) {
        state = State::Void;
        orphan->late = nullptr;
    }
}

}  // namespace sliding_log
