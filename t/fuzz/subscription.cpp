// Any bytes of a Sentinel to a subscriber. hiredis's async API fails an assertion for most of them unless the arena
// refuses them first. Input: one byte, the length of the pieces; the bytes.

#include <hiredis/async.h>

#include "fuzz.hpp"
#include "listener.hpp"
#include "redis/reply_arena.hpp"
#include "redis/resp.hpp"

namespace sliding_log::fuzz {

namespace {

struct Subscriber {
    explicit Subscriber(redisAsyncContext* connected) : context(connected) {
        context->data = this;
        context->ev.data = this;
        context->ev.cleanup = [](void* self) { static_cast<Subscriber*>(self)->context = nullptr; };
        arena.attach(*context->c.reader);
        for (const std::string_view channel : {"+switch-master", "+promoted-slave"}) {
            const std::string subscribe = command({"SUBSCRIBE", channel});
            require(redisAsyncFormattedCommand(context, heard, this, subscribe.data(), subscribe.size()) == REDIS_OK,
                    "SUBSCRIBE is sent");
            arena.expectMessages(channel);
        }
    }
    ~Subscriber() {
        if (context != nullptr) {
            redisAsyncFree(context);
        }
    }

    static void heard(redisAsyncContext*, void* message, void*) {
        const auto* reply = static_cast<const redisReply*>(message);
        if (reply != nullptr) {
            require(reply->type == REDIS_REPLY_ARRAY && reply->elements == 3, "only messages are received");
            require(reply->element[0]->type == REDIS_REPLY_STRING && reply->element[1]->type == REDIS_REPLY_STRING,
                    "a message has its kind and its channel");
        }
    }

    redisAsyncContext* context;
    ReplyArena arena;
};

}  // namespace

}  // namespace sliding_log::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log::fuzz;
    static const Listener listener;
    Subscriber subscriber(redisAsyncConnectUnix(listener.path()));
    const int server = listener.accepted();
    redisAsyncHandleWrite(subscriber.context);
    Input input(data, size);
    const std::size_t piece = 1 + input.number<std::uint8_t>();
    while (subscriber.context != nullptr && !input.isEmpty()) {
        const std::string_view bytes = input.text(piece);
        if (write(server, bytes.data(), bytes.size()) > 0) {
            redisAsyncHandleRead(subscriber.context);
        }
    }
    close(server);
    return 0;
}
