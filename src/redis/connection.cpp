#include "redis/connection.hpp"

#include <fcntl.h>
#include <hiredis/sds.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "redis/resp.hpp"
#include "this_process.hpp"

namespace sliding_log {

/// The callbacks of hiredis and nginx; each only finds its Connection.
struct Connection::Hooks {
    static Connection& of(const void* data) { return *static_cast<Connection*>(const_cast<void*>(data)); }

    static void addRead(void* data) {
        ngx_event_t* event = of(data).socket_->read;
        // level-triggered: hiredis reads 16 KiB once per event and leaves the rest
        if (!event->active && ngx_add_event(event, NGX_READ_EVENT, NGX_LEVEL_EVENT) != NGX_OK) {
            ngx_log_error(NGX_LOG_ALERT, event->log, 0, "sliding_log: cannot watch a Redis connection");
        }
    }

    static void delRead(void* data) {
        ngx_event_t* event = of(data).socket_->read;
        if (event->active) {
            ngx_del_event(event, NGX_READ_EVENT, 0);
        }
    }

    static void addWrite(void* data) { of(data).armWrite(); }
    static void delWrite(void* data) { of(data).disarmWrite(); }
    static void cleanup(void* data) { of(data).released(); }

    static void onConnect(const redisAsyncContext* context, int status) {
        if (status == REDIS_OK) {
            of(context->data).owner_.connected();
        }
    }

    static void onReply(redisAsyncContext* context, void* reply, void* target) {
        of(context->data).arena_.replyDelivered();
        static_cast<ReplyTarget*>(target)->replied(static_cast<const redisReply*>(reply));
    }

    static void onMessage(redisAsyncContext*, void* message, void* target) {
        static_cast<ReplyTarget*>(target)->replied(static_cast<const redisReply*>(message));
    }

    static void readable(ngx_event_t* event) { of(static_cast<ngx_connection_t*>(event->data)->data).onReadable(); }
    static void writable(ngx_event_t* event) { of(static_cast<ngx_connection_t*>(event->data)->data).onWritable(); }
};

Connection::~Connection() {
    dying_ = true;
    if (context_ != nullptr) {
        redisAsyncFree(context_);
    }
}

bool Connection::open(const Endpoint& endpoint) {
    redisAsyncContext* context = endpoint.host.empty() ? redisAsyncConnectUnix(endpoint.path.c_str())
                                                       : redisAsyncConnect(endpoint.host.c_str(), endpoint.port);
    if (context == nullptr) {
        reason_ = "out of memory";
        return false;
    }
    context_ = context;
    arena_.reset();
    reason_.clear();
    if (context->err != 0) {
        reason_ = context->errstr;
    } else if (startTls(endpoint) && attach()) {
        if (!endpoint.host.empty()) {
            redisEnableKeepAlive(&context->c);  // so that a host that disappeared is noticed between requests
        }
        return true;
    }
    context_ = nullptr;
    session_ = nullptr;
    redisAsyncFree(context);
    return false;
}

bool Connection::startTls(const Endpoint& endpoint) {
    if (tls_ != nullptr) {
        session_ = tls_->start(context_->c, endpoint.name, reason_);
    }
    return tls_ == nullptr || session_ != nullptr;
}

bool Connection::attach() {
    const int fd = context_->c.fd;
    socket_ = ngx_get_connection(fd, log_);
    if (socket_ == nullptr) {
        reason_ = "worker_connections are not enough";
        return false;
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);  // hiredis does not; a binary upgrade must not inherit it
    socket_->data = this;
    socket_->read->handler = Hooks::readable;
    socket_->write->handler = Hooks::writable;
    socket_->read->log = log_;
    socket_->write->log = log_;
    socket_->log = log_;
    socket_->idle = 1;  // a worker that quits calls the read handler

    context_->data = this;
    context_->ev = {};
    context_->ev.data = this;
    context_->ev.addRead = Hooks::addRead;
    context_->ev.delRead = Hooks::delRead;
    context_->ev.addWrite = Hooks::addWrite;
    context_->ev.delWrite = Hooks::delWrite;
    context_->ev.cleanup = Hooks::cleanup;
    arena_.attach(*context_->c.reader);
    // also requests the write event at the end of connecting
    redisAsyncSetConnectCallback(context_, Hooks::onConnect);
    return true;
}

bool Connection::send(std::string_view command, ReplyTarget& target) {
    if (context_ == nullptr ||
        redisAsyncFormattedCommand(context_, Hooks::onReply, &target, command.data(), command.size()) != REDIS_OK) {
        return false;
    }
    arena_.expectReply();
    return true;
}

bool Connection::subscribe(std::string_view channel, ReplyTarget& target) {
    const std::string text = command({"SUBSCRIBE", channel});
    if (context_ == nullptr ||
        redisAsyncFormattedCommand(context_, Hooks::onMessage, &target, text.data(), text.size()) != REDIS_OK) {
        return false;
    }
    arena_.expectMessages(channel);
    return true;
}

void Connection::close(std::string_view reason) {
    if (context_ != nullptr) {
        reason_ = reason;
        redisAsyncFree(context_);
        notifyIfGone();
    }
}

/// OpenSSL would take errors left in its queue for errors of the next call.
void Connection::forgetTlsErrors() const {
    if (session_ != nullptr) {
        ERR_clear_error();
    }
}

void Connection::onReadable() {
    if (socket_->close) {
        // worker_shutdown_timeout sets both, and ends the requests in the same turn: what they have to give back
        // still needs this connection
        socket_->close = socket_->error = 0;
        owner_.workerQuits();
    } else {
        forgetTlsErrors();
        redisAsyncHandleRead(context_);
        notifyIfGone();
    }
}

void Connection::onWritable() {
    if (writeAtOnce()) {
        return;
    }
    writing_ = true;
    forgetTlsErrors();
    redisAsyncHandleWrite(context_);
    writing_ = false;
    notifyIfGone();
}

/// Writes all that is to be written; false: hiredis has to. It would free its buffer afterwards, and allocate one for
/// the next command.
bool Connection::writeAtOnce() {
    constexpr std::size_t kKeptBytes = 4096;
    redisContext& context = context_->c;
    const std::size_t length = sdslen(context.obuf);
    const bool isUsual = session_ == nullptr && context.err == 0 && (context.flags & REDIS_CONNECTED) != 0 &&
                         socket_->read->active && !socket_->write->active;
    if (!isUsual || length == 0 || length > kKeptBytes) {
        return false;
    }
    const ssize_t written = ::send(context.fd, context.obuf, length, MSG_NOSIGNAL);
    if (written < 0 && errno != EAGAIN && errno != EINTR) {
        close(std::generic_category().message(errno));  // another write would fail with another reason
        return true;
    }
    if (written <= 0) {
        return false;
    }
    const std::size_t left = length - static_cast<std::size_t>(written);
    std::memmove(context.obuf, context.obuf + written, left + 1);
    sdssetlen(context.obuf, left);
    return left == 0;
}

/// Only the end of connecting and the rest of a partial write wait for the socket; everything else is written at the
/// end of this event-loop turn, without a system call to request it.
void Connection::armWrite() {
    ngx_event_t* event = socket_->write;
    if ((context_->c.flags & REDIS_CONNECTED) != 0 && !writing_) {
        postEvent(event);
    } else {
        awaitWritable();
    }
}

void Connection::awaitWritable() {
    ngx_event_t* event = socket_->write;
    if (!event->active && ngx_add_event(event, NGX_WRITE_EVENT, NGX_LEVEL_EVENT) != NGX_OK) {
        ngx_log_error(NGX_LOG_ALERT, event->log, 0, "sliding_log: cannot watch a Redis connection");
    }
}

/// hiredis_ssl requests this with commands still to be written if the previous read needed more of a record: it would
/// continue only at the next reply, which may never arrive. A handshake, however, does wait for the peer.
void Connection::disarmWrite() {
    if (session_ != nullptr && sdslen(context_->c.obuf) > 0 && !SSL_want_read(session_)) {
        awaitWritable();
    } else if (socket_->write->active) {
        ngx_del_event(socket_->write, NGX_WRITE_EVENT, 0);
    }
}

/// hiredis frees the context, on its own or for us. 0.14 has called the pending targets before, 1.x calls them after
/// this.
void Connection::released() {
    if (arena_.hasRefused()) {
        reason_ = "a reply that nobody asked for, or far too long";
    } else if (reason_.empty()) {
        reason_ = context_->err == 0    ? "closed"
                  : session_ == nullptr ? context_->errstr
                                        : tlsFailure(session_, context_->errstr);
    }
    session_ = nullptr;
    ngx_close_connection(socket_);
    context_->c.fd = -1;  // just closed: the number may already be reused
    socket_ = nullptr;
    context_ = nullptr;
}

void Connection::notifyIfGone() {
    if (context_ == nullptr && !dying_) {
        owner_.disconnected(reason_);
    }
}

}  // namespace sliding_log
