#include "kernel.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace simulate {

namespace {

constexpr std::uint32_t kAlways = EPOLLERR | EPOLLHUP;

}  // namespace

std::string textOf(Host host) {
    std::string text;
    for (const int shift : {24, 16, 8, 0}) {
        text += std::to_string(host >> shift & 255) + (shift > 0 ? "." : "");
    }
    return text;
}

Connection::Connection(Kernel& kernel, std::shared_ptr<Stream> stream) : kernel_(kernel), stream_(std::move(stream)) {
    stream_->owner = this;
}

void Connection::close(bool isReset) {
    if (const auto stream = std::exchange(stream_, nullptr)) {
        kernel_.close(*stream, isReset);
    }
}

void Epoll::closed() {
    for (const std::shared_ptr<File>& file : ready) {
        file->isQueued = false;
    }
    ready.clear();
}

std::uint32_t Stream::events() const {
    switch (state) {
        case State::Connecting:
            return 0;
        case State::Connected: {
            const auto to = peer.lock();
            const bool hasRoom = to == nullptr || to->inFlight + to->unread().size() < Kernel::kMostInFlight;
            return (unread().empty() && !hasEnd ? 0u : static_cast<std::uint32_t>(EPOLLIN)) |
                   (hasEnd ? static_cast<std::uint32_t>(EPOLLRDHUP) : 0u) |
                   (hasRoom ? static_cast<std::uint32_t>(EPOLLOUT) : 0u);
        }
        case State::Ended:
            return EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    }
    return 0;
}

void Stream::consume(std::size_t bytes) {
    const bool wasFull = inFlight + unread().size() >= Kernel::kMostInFlight;
    used += bytes;
    if (used == received.size()) {
        received.clear();
        used = 0;
    }
    if (const auto from = peer.lock(); wasFull && from != nullptr) {
        kernel->changed(*from);
    }
}

void Stream::closed() {
    kernel->close(*this, !unread().empty());
}

std::uint32_t Listener::events() const {
    return queue == nullptr || queue->waiting.empty() ? 0u : static_cast<std::uint32_t>(EPOLLIN);
}

void Listener::closed() {
    if (queue != nullptr) {
        std::erase(queue->listeners, this);
        while (queue->listeners.empty() && !queue->waiting.empty()) {
            kernel->close(*queue->waiting.front(), true);
            queue->waiting.pop_front();
        }
        queue = nullptr;
    }
}

const Link& Kernel::linkOf(Host from, Host to) const {
    const auto found = links_.find({from, to});
    return found == links_.end() ? usual_ : found->second;
}

Time Kernel::arrivalAt(Stream& from) {
    const Link& link = linkOf(from.local.host, from.remote.host);
    const auto jitter = static_cast<Time>(random_.below(static_cast<std::uint64_t>(link.jitter) + 1));
    from.lastArrival = std::max(from.lastArrival, schedule_.now() + link.delay + jitter);
    return from.lastArrival;
}

void Kernel::deliver(Stream& from, Schedule::Action arrive) {
    const std::pair way{from.local.host, from.remote.host};
    if (linkOf(way.first, way.second).isCut) {
        held_[way].push_back({std::static_pointer_cast<Stream>(from.shared_from_this()), std::move(arrive)});
    } else {
        schedule_.at(arrivalAt(from), std::move(arrive));
    }
}

void Kernel::mend(Host one, Host other) {
    for (const std::pair<Host, Host>& way : {std::pair{one, other}, std::pair{other, one}}) {
        link(way.first, way.second).isCut = false;
        if (const auto held = held_.extract(way)) {
            for (Held& each : held.mapped()) {
                schedule_.at(arrivalAt(*each.from), std::move(each.arrive));
            }
        }
    }
}

void Kernel::listen(Address address, Acceptor* acceptor) {
    if (acceptor == nullptr) {
        acceptors_.erase(address);
    } else {
        acceptors_[address] = acceptor;
    }
}

int Kernel::listen(Listener& listener) {
    std::shared_ptr<ListenQueue>& queue = queues_[listener.address];
    if (queue == nullptr) {
        queue = std::make_shared<ListenQueue>();
    }
    if (listener.queue == nullptr) {
        listener.queue = queue;
        queue->listeners.push_back(&listener);
    }
    return 0;
}

std::shared_ptr<Stream> Kernel::connect(Address from, Address to) {
    auto stream = std::make_shared<Stream>();
    stream->kernel = this;
    stream->local = from;
    connect(*stream, to);
    return stream;
}

void Kernel::connect(Stream& stream, Address to) {
    stream.remote = to;
    deliver(stream, [this, client = stream.weak(), to] {
        if (const auto there = client.lock(); there != nullptr && there->state == Stream::State::Connecting) {
            answer(there, to);
        }
    });
}

/// The request for a connection has arrived; the client learns the answer one way later.
void Kernel::answer(const std::shared_ptr<Stream>& client, Address to) {
    const auto acceptor = acceptors_.find(to);
    const auto queue = queues_.find(to);
    const bool isListening = queue != queues_.end() && !queue->second->listeners.empty();
    auto server = std::make_shared<Stream>();
    server->kernel = this;
    server->local = to;
    server->remote = client->local;
    if (acceptor == acceptors_.end() && !isListening) {
        deliver(*server, [this, client] { end(client, ECONNREFUSED); });
        return;
    }
    server->state = Stream::State::Connected;
    server->peer = client;
    client->peer = server;
    deliver(*server, [this, client, server] {  // the server lives at least until then
        if (client->state == Stream::State::Connecting) {
            client->state = Stream::State::Connected;
            if (client->owner != nullptr) {
                client->owner->connected();
            }
            changed(*client);
        }
    });
    if (acceptor != acceptors_.end()) {
        acceptor->second->accepted(server);
        return;
    }
    ListenQueue& waiting = *queue->second;
    waiting.waiting.push_back(server);
    const std::size_t first = random_.below(waiting.listeners.size());
    for (std::size_t i = 0; i < waiting.listeners.size(); i++) {
        changed(*waiting.listeners[(first + i) % waiting.listeners.size()]);
    }
}

std::shared_ptr<Stream> Kernel::accept(Listener& listener) {
    if (listener.queue == nullptr || listener.queue->waiting.empty()) {
        return nullptr;
    }
    std::shared_ptr<Stream> stream = std::move(listener.queue->waiting.front());
    listener.queue->waiting.pop_front();
    return stream;
}

std::size_t Kernel::write(Stream& stream, std::string_view bytes) {
    const std::shared_ptr<Stream> to = stream.peer.lock();
    if (to == nullptr || to->state == Stream::State::Ended) {  // the peer answers with a reset
        deliver(stream, [this, from = stream.weak()] {
            if (const auto self = from.lock()) {
                end(self, ECONNRESET);
            }
        });
        return bytes.size();
    }
    const std::size_t filled = to->inFlight + to->unread().size();
    const std::size_t taken = std::min(bytes.size(), kMostInFlight - std::min(filled, kMostInFlight));
    to->inFlight += taken;
    const bool splits = linkOf(stream.local.host, stream.remote.host).splits;
    for (std::size_t sent = 0; sent < taken;) {
        const std::size_t piece = splits ? 1 + random_.below(std::min<std::size_t>(taken - sent, 64)) : taken - sent;
        deliver(stream, [this, to, text = std::string(bytes.substr(sent, piece))] { arrived(to, text); });
        sent += piece;
    }
    return taken;
}

void Kernel::arrived(const std::shared_ptr<Stream>& to, std::string_view bytes) {
    to->inFlight -= bytes.size();
    if (to->state == Stream::State::Ended) {
        return;
    }
    if (to->used > to->received.size() / 2) {
        to->received.erase(0, to->used);
        to->used = 0;
    }
    to->received.append(bytes);
    if (to->owner != nullptr) {
        to->owner->readable();
    } else {
        changed(*to);
    }
}

void Kernel::close(Stream& stream, bool isReset) {
    stream.owner = nullptr;
    unwatch(stream);
    const bool wasConnected = stream.state == Stream::State::Connected;
    stream.state = Stream::State::Ended;
    if (!wasConnected) {
        return;
    }
    if (const std::shared_ptr<Stream> to = stream.peer.lock()) {
        deliver(stream, [this, to, error = isReset ? ECONNRESET : 0] { end(to, error); });
    }
}

void Kernel::end(const std::shared_ptr<Stream>& stream, int error) {
    if (stream->state == Stream::State::Ended) {
        return;
    }
    stream->hasEnd = true;
    if (error != 0) {
        stream->state = Stream::State::Ended;
        stream->error = error;
    }
    if (StreamOwner* owner = stream->owner) {
        stream->owner = nullptr;
        owner->ended();
    } else {
        changed(*stream);
    }
}

void Kernel::send(Datagrams& socket, std::string_view datagram) {
    const Host from = socket.local.host;
    const Address to = socket.remote;
    const auto responder = responders_.find(to);
    if (responder == responders_.end() || linkOf(from, to.host).isCut) {
        return;
    }
    const auto answered = [this, weak = socket.weak_from_this()](const std::string& text) {
        if (const auto there = std::static_pointer_cast<Datagrams>(weak.lock())) {
            there->received.push_back(text);
            changed(*there);
        }
    };
    const auto arrived = [this, from, to, answered, text = std::string(datagram), server = responder->second] {
        const Link& back = linkOf(to.host, from);
        if (const std::string answer = server->answerTo(text); !answer.empty() && !back.isCut) {
            schedule_.after(back.delay, [answered, answer] { answered(answer); });
        }
    };
    schedule_.after(linkOf(from, to.host).delay, arrived);
}

void Kernel::changed(File& file) {
    Epoll* epoll = file.watcher;
    if (epoll == nullptr || (file.events() & (file.interest | kAlways)) == 0) {
        return;
    }
    if (!file.isQueued) {
        file.isQueued = true;
        epoll->ready.push_back(file.shared_from_this());
    }
    if (epoll->waiter != nullptr) {
        wake(*epoll->waiter);
    }
}

void Kernel::watch(Epoll& epoll, File& file, std::uint32_t interest, std::uint64_t data) {
    file.watcher = &epoll;
    file.interest = interest;
    file.data = data;
    changed(file);
}

void Kernel::unwatch(File& file) {
    file.watcher = nullptr;  // the ready list forgets it when it is read
}

int Kernel::collect(Epoll& epoll, epoll_event* list, int most) {
    int found = 0;
    for (std::size_t left = epoll.ready.size(); left > 0 && found < most; left--) {
        std::shared_ptr<File> file = std::move(epoll.ready.front());
        epoll.ready.pop_front();
        const std::uint32_t events = file->events() & (file->interest | kAlways);
        if (file->watcher != &epoll || events == 0) {
            file->isQueued = false;
            continue;
        }
        list[found].events = events;
        list[found].data.u64 = file->data;
        found++;
        if ((file->interest & EPOLLET) != 0) {
            file->isQueued = false;
        } else {
            epoll.ready.push_back(std::move(file));
        }
    }
    return found;
}

}  // namespace simulate
