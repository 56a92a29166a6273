// A question whose request is gone while its answer is out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/group.hpp"

namespace sliding_log {

class RedisStore;

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
        questions = copies;
        verdicts = answers;
        place = waiter.place;
        apart = false;
        deadline = waiter.deadline;
        group = waiter.group;
        group->waiters.pushBack(*this);
        waiter.forget();
    }

    RedisStore* store = nullptr;

    std::string texts;
    std::vector<Question> copies;
    std::vector<Verdict> answers;

  private:
    static std::string_view cut(std::string_view& rest, std::size_t length) {
        const std::string_view first = rest.substr(0, length);
        rest.remove_prefix(length);
        return first;
    }
};

}  // namespace sliding_log
