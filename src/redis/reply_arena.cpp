#include "redis/reply_arena.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace sliding_log {

namespace {

/// Far above any reply to our commands: an invalid length must not become an allocation.
constexpr std::size_t kMostElements = 65536;

#if HIREDIS_MAJOR >= 1
using ElementCount = std::size_t;
#else
using ElementCount = int;
#endif

}  // namespace

/// The functions of the reader that create replies. nullptr makes it report a protocol error, and the connection is
/// closed.
struct ReplyArena::Functions {
    static ReplyArena& arena(const redisReadTask* task) { return *static_cast<ReplyArena*>(task->privdata); }

    static void* string(const redisReadTask* task, char* text, std::size_t length) {
        return arena(task).createText(*task, text, length);
    }
    static void* array(const redisReadTask* task, ElementCount elements) {
        return arena(task).createArray(*task, static_cast<std::size_t>(elements));
    }
    static void* integer(const redisReadTask* task, long long value) {
        redisReply* reply = arena(task).create(*task, REDIS_REPLY_INTEGER);
        if (reply != nullptr) {
            reply->integer = value;
        }
        return reply;
    }
    static void* nil(const redisReadTask* task) { return arena(task).create(*task, REDIS_REPLY_NIL); }

#if HIREDIS_MAJOR >= 1
    // RESP3 only, which is never requested; hiredis would use a missing function as an invalid pointer.
    static void* number(const redisReadTask*, double, char*, std::size_t) {
        return nullptr;
    }
    static void* boolean(const redisReadTask*, int) {
        return nullptr;
    }
#endif

    static void free(void*) {}  // the next reply reuses the memory
};

void ReplyArena::attach(redisReader& reader) {
    static redisReplyObjectFunctions functions = {
        Functions::string,
        Functions::array,
        Functions::integer,
#if HIREDIS_MAJOR >= 1
        Functions::number,
#endif
        Functions::nil,
#if HIREDIS_MAJOR >= 1
        Functions::boolean,
#endif
        Functions::free,
    };
    reader.fn = &functions;
    reader.privdata = this;
}

/// False if hiredis would abort the worker.
bool ReplyArena::isWelcome(const redisReadTask& task, int type, std::string_view text, std::size_t elements) const {
    if (expected_ > 0) {
        return true;
    }
    if (task.parent == nullptr) {
        return type == REDIS_REPLY_ERROR || (!channels_.empty() && type == REDIS_REPLY_ARRAY && elements == 3);
    }
    if (task.parent->parent != nullptr || task.idx > 1) {
        return true;
    }
    return type == REDIS_REPLY_STRING && (task.idx == 1 ? std::ranges::find(channels_, text) != channels_.end()
                                                        : text == "message" || text == "subscribe");
}

redisReply* ReplyArena::create(const redisReadTask& task, int type, std::string_view text, std::size_t elements) try {
    if (!isWelcome(task, type, text, elements)) {
        refused_ = true;
        return nullptr;
    }
    if (task.parent == nullptr) {
        memory_.release();
    }
    auto* reply = new (memory_.allocate(sizeof(redisReply), alignof(redisReply))) redisReply{};
    reply->type = type;
    if (task.parent != nullptr) {
        static_cast<redisReply*>(task.parent->obj)->element[task.idx] = reply;
    }
    return reply;
} catch (const std::bad_alloc&) {
    return nullptr;
}

redisReply* ReplyArena::createText(const redisReadTask& task, const char* text, std::size_t length) try {
    redisReply* reply = create(task, task.type, {text, length});
    if (reply != nullptr) {
        reply->str = static_cast<char*>(memory_.allocate(length + 1, 1));
        std::memcpy(reply->str, text, length);
        reply->str[length] = '\0';  // hiredis copies the reason of a refusal as a C string
        reply->len = length;
    }
    return reply;
} catch (const std::bad_alloc&) {
    return nullptr;
}

redisReply* ReplyArena::createArray(const redisReadTask& task, std::size_t elements) try {
    if (elements > kMostElements) {
        refused_ = true;
        return nullptr;
    }
    redisReply* reply = create(task, task.type, {}, elements);
    if (reply != nullptr && elements > 0) {
        void* memory = memory_.allocate(elements * sizeof(redisReply*), alignof(redisReply*));
        reply->element = new (memory) redisReply* [elements] {};
        reply->elements = elements;
    }
    return reply;
} catch (const std::bad_alloc&) {
    return nullptr;
}

}  // namespace sliding_log
