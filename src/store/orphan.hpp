// A question whose answer its request does not wait for: the client has left, or it took too long.
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

/// What a request that goes on without an answer remembers of it: whether its entries are in the logs all the same. It
/// lives in the request, which forgets it when it ends.
struct Late {
    enum class State {
        Open,    // nobody knows yet
        Logged,  // at loggedMs
        Void,    // there is none
        Unknown  // nobody will ever tell
    };

    explicit Late(Orphan& of);
    void forget();

    State state = State::Open;
    std::uint64_t loggedMs = 0;
    Orphan* orphan;        // while it is Open
    Late* next = nullptr;  // of the same request
};

/// Takes the request's place in its group, with copies of what lived in the request, so that what it turns out to have
/// logged can be taken back. It lives in its store and is used again.
struct Orphan final : Waiter {
    /// Takes over from a waiter whose group is sent.
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

    /// Its entry in that log is to leave.
    void leave(std::string_view key) {
        const auto copy = std::ranges::find(copies, key, &Question::key);
        leaving[static_cast<std::size_t>(copy - copies.begin())] = true;
    }

    /// The questions with entries that are to leave, or all.
    std::span<const Question> leavers(bool all) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < copies.size(); i++) {
            if (all || leaving[i]) {
                copies[kept++] = copies[i];
            }
        }
        return std::span(copies).first(kept);
    }

    Late* late = nullptr;  // who wants to know
    bool isOwed = false;   // it has entries that are to leave

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
