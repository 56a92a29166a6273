// Any bytes of a server at any time, read by hiredis's async API over a real socket. The arena refuses unexpected
// replies, since hiredis would abort. Input: the checks of each command; then pieces: one byte, the number of commands
// to send first; one byte, a length; that number of bytes, sent by the server.

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
        require(sent == received, "every command has one reply");
        require(arena.expected() == 0, "no reply is expected at the end");
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
        self.received++;
        if (reply != nullptr) {
            checkReplies(self.batch, *static_cast<const redisReply*>(reply), self.asked);
        }
    }

    redisAsyncContext* context;
    const Asked& asked;
    ReplyArena arena;
    BatchReply batch;
    unsigned sent = 0;
    unsigned received = 0;
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
