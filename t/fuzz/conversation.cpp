// Whatever a server says, and when: hiredis's async API over a real socket, with the arena that keeps it from aborting
// on what nobody asked for. Input: what each command asks; then pieces of one byte (how many commands are sent first),
// one byte (length), and that many bytes which the server says.

#include <hiredis/async.h>

#include "checks.hpp"
#include "fuzz.hpp"
#include "listener.hpp"
#include "redis/reply_arena.hpp"

namespace sliding_log::fuzz {

namespace {

struct Client {
    Client(redisAsyncContext* connected, const Asked& checks) : context(connected), asked(checks) {
        context->data = this;
        context->ev.data = this;
        context->ev.cleanup = [](void* self) { static_cast<Client*>(self)->context = nullptr; };
        arena.attach(*context->c.reader);
    }
    ~Client() {
        if (context != nullptr) {
            redisAsyncFree(context);
        }
        require(sent == answered, "every command is answered once");
        require(arena.expected() == 0, "no reply is owed in the end");
    }

    void ask() {
        if (context != nullptr && redisAsyncCommand(context, replied, this, "PING") == REDIS_OK) {
            arena.expectReply();
            sent++;
        }
    }

    static void replied(redisAsyncContext*, void* reply, void* data) {
        Client& self = *static_cast<Client*>(data);
        self.arena.replyDelivered();
        self.answered++;
        if (reply != nullptr) {
            answerAll(self.batch, *static_cast<const redisReply*>(reply), self.asked);
        }
    }

    redisAsyncContext* context;
    const Asked& asked;
    ReplyArena arena;
    BatchReply batch;
    unsigned sent = 0;
    unsigned answered = 0;
};

}  // namespace

}  // namespace sliding_log::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sliding_log::fuzz;
    static const Listener listener;
    Input input(data, size);
    const Asked asked(input);
    Client client(redisAsyncConnectUnix(listener.path()), asked);
    const int server = listener.accepted();
    redisAsyncHandleWrite(client.context);
    while (client.context != nullptr && !input.isEmpty()) {
        for (unsigned commands = input.number<std::uint8_t>() % 4; commands > 0; commands--) {
            client.ask();
        }
        const std::string_view bytes = input.text(input.number<std::uint8_t>());
        if (!bytes.empty() && write(server, bytes.data(), bytes.size()) > 0) {
            redisAsyncHandleRead(client.context);
        }
    }
    close(server);
    return 0;
}
