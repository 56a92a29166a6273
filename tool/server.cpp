#include "server.hpp"

#include <sys/time.h>

#include <cerrno>

#include "certificate.hpp"
#include "failure.hpp"
#include "redis/resp.hpp"
#include "text.hpp"

namespace sliding_log::tool {

namespace {

timeval timevalOf(int ms) {
    return {ms / 1000, ms % 1000 * 1000L};
}

}  // namespace

std::string nameOf(const Endpoint& endpoint) {
    return endpoint.path.empty() ? hostAndPort(endpoint.name.empty() ? endpoint.host : endpoint.name, endpoint.port)
                                 : "unix:" + endpoint.path;
}

Server::Server(const Endpoint& endpoint, const Login& login)
    : endpoint_(endpoint),
      name_(nameOf(endpoint)),
      timeoutMs_(login.timeoutMs),
      username_(login.username),
      password_(login.password) {
    const timeval timeout = timevalOf(login.timeoutMs);
    context_.reset(endpoint.path.empty() ? redisConnectWithTimeout(endpoint.host.c_str(), endpoint.port, timeout)
                                         : redisConnectUnixWithTimeout(endpoint.path.c_str(), timeout));
    if (context_ == nullptr) {
        throw std::bad_alloc();
    }
    if (context_->err != 0) {
        fail(context_->errstr);
    }
    redisSetTimeout(context_.get(), timeout);
    if (login.tls != nullptr) {
        std::string reason;
        session_ = login.tls->start(*context_, endpoint.name.empty() ? endpoint.host : endpoint.name, reason);
        if (session_ == nullptr) {
            fail(reason);
        }
    }
    if (!password_->isEmpty() || !username_.empty()) {
        const Reply reply = authenticate(password_->renew());
        if (reply.isError()) {  // only its first word: the rest could quote the command
            fail("AUTH answered: " + std::string(reply.errorWord()) +
                 (password_->isEmpty() ? ", without a password" : ""));
        }
    }
    if (login.database != 0) {
        const Reply reply = exchange({"SELECT", std::to_string(login.database)});
        if (reply.isError()) {
            fail("SELECT answered: " + printable(reply.text()));
        }
    }
}

std::optional<std::int64_t> Server::certificateLeftMs(Whose whose) const {
    if (session_ == nullptr) {
        return std::nullopt;
    }
    if (whose == Whose::Own) {
        return leftOf(SSL_get_certificate(session_));
    }
    const std::unique_ptr<X509, decltype(&X509_free)> peer(SSL_get_peer_certificate(session_), &X509_free);
    return leftOf(peer.get());
}

Reply Server::authenticate(const std::string& password) {
    sentPassword_ = password;
    return exchange(username_.empty() ? Command{"AUTH", password} : Command{"AUTH", username_, password});
}

/// A connection stays logged in as it was if Redis refuses another password.
void Server::renewLogin() {
    if (const std::string& password = password_->renewAtTimes(); password != sentPassword_) {
        authenticate(password);
    }
}

Reply Server::exchange(const Command& command) {
    append(command);
    return take();
}

Reply Server::ask(const Command& command) {
    renewLogin();
    return exchange(command);
}

std::vector<Reply> Server::ask(std::span<const Command> commands) {
    renewLogin();
    for (const Command& command : commands) {
        append(command);
    }
    std::vector<Reply> replies;
    replies.reserve(commands.size());
    for (std::size_t i = 0; i < commands.size(); i++) {
        replies.push_back(take());
    }
    return replies;
}

void Server::append(const Command& command) {
    std::string text;
    beginCommand(text, command.size());
    for (const std::string& argument : command) {
        appendArgument(text, argument);
    }
    if (redisAppendFormattedCommand(context_.get(), text.data(), text.size()) != REDIS_OK) {
        fail(context_->errstr);
    }
}

Reply Server::take() {
    void* reply = nullptr;
    errno = 0;
    if (redisGetReply(context_.get(), &reply) != REDIS_OK || reply == nullptr) {
        const bool isLate = context_->err == REDIS_ERR_IO && (errno == EAGAIN || errno == EWOULDBLOCK);
        fail(isLate ? "no reply within " + duration(timeoutMs_) : context_->errstr);
    }
    return Reply(static_cast<redisReply*>(reply));
}

void Server::fail(const std::string& reason) const {
    throw CouldNotAsk(printable(name_) + ": " + printable(reason));
}

}  // namespace sliding_log::tool
