// The kernel of the simulated machines: their sockets and epoll, over a network with delays. Processes call it by the
// functions of syscalls.cpp; servers and clients that are not processes have the other ends of connections as Streams.
//
// A connection is two Streams that are peers. Bytes that one end writes arrive at the other one later, in order, in
// pieces that the network chooses.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "random.hpp"
#include "schedule.hpp"

namespace simulate {

struct Process;
struct Stream;

/// An IPv4 address, as the simulation names machines: 10.0.0.1 is 0x0a000001.
using Host = std::uint32_t;

struct Address {
    Host host;
    std::uint16_t port;
    auto operator<=>(const Address&) const = default;
};

/// `10.0.0.1`
std::string textOf(Host host);

/// What a descriptor refers to.
struct File : std::enable_shared_from_this<File> {
    virtual ~File() = default;
    /// EPOLLIN, EPOLLOUT ... that are true now.
    virtual std::uint32_t events() const = 0;
    virtual void closed() {}

    struct Epoll* watcher = nullptr;  // at most one, as nginx has
    std::uint32_t interest = 0;       // with EPOLLET
    std::uint64_t data = 0;
    bool isQueued = false;  // in the ready list of the watcher
};

struct Epoll final : File {
    std::uint32_t events() const override { return 0; }
    void closed() override;

    std::deque<std::shared_ptr<File>> ready;
    Process* waiter = nullptr;
};

/// Something that is told what happens to its end of a connection, instead of a process that polls.
struct StreamOwner {
    virtual void connected() {}
    /// Bytes have arrived in `received` of its Stream; it removes what it has used.
    virtual void readable() = 0;
    /// The other end has closed the connection, or it failed: its Stream is no more to be used.
    virtual void ended() = 0;

  protected:
    ~StreamOwner() = default;
};

struct Stream final : File {
    enum class State { Connecting, Connected, Ended };

    std::uint32_t events() const override;
    void closed() override;

    class Kernel* kernel = nullptr;
    State state = State::Connecting;
    Address local{};
    Address remote{};
    std::weak_ptr<Stream> peer;
    StreamOwner* owner = nullptr;  // nullptr: of a process
    std::string received;
    std::size_t used = 0;      // of `received`
    std::size_t inFlight = 0;  // bytes that have been written and not been received
    Time lastArrival = 0;      // at the peer
    int error = 0;             // Ended: why, as errno; 0: the peer has closed it
    bool hasEnd = false;       // the peer has closed its end, and all its bytes have arrived

    std::weak_ptr<Stream> weak() { return std::static_pointer_cast<Stream>(shared_from_this()); }
    std::string_view unread() const { return std::string_view(received).substr(used); }
    void consume(std::size_t bytes);
};

/// Waits for connections.
struct Acceptor {
    /// A connection has arrived. The Stream is the acceptor's end.
    virtual void accepted(std::shared_ptr<Stream> stream) = 0;

  protected:
    ~Acceptor() = default;
};

/// A listening socket of a process. Those of one address share a queue.
struct ListenQueue {
    std::deque<std::shared_ptr<Stream>> waiting;
    std::vector<struct Listener*> listeners;
};

struct Listener final : File {
    std::uint32_t events() const override;
    void closed() override;

    class Kernel* kernel = nullptr;
    Address address{};
    std::shared_ptr<ListenQueue> queue;
};

/// A server of datagrams: it answers each at once.
struct Responder {
    /// "": there is no answer.
    virtual std::string answerTo(std::string_view datagram) = 0;

  protected:
    ~Responder() = default;
};

/// A socket for datagrams, connected to a Responder.
struct Datagrams final : File {
    std::uint32_t events() const override {
        return EPOLLOUT | (received.empty() ? 0u : static_cast<std::uint32_t>(EPOLLIN));
    }

    Address local{};
    Address remote{};
    std::deque<std::string> received;
};

/// How the network treats what one host sends to another one.
struct Link {
    Time delay = 100 * kUs;
    Time jitter = 50 * kUs;
    bool isCut = false;   // nothing arrives, and nobody is told
    bool splits = false;  // bytes are divided anywhere
};

class Kernel {
  public:
    Kernel(Schedule& schedule, Random random) : schedule_(schedule), random_(random) {}

    Schedule& schedule() { return schedule_; }

    /// Of all pairs of hosts that have none of their own.
    Link& usualLink() { return usual_; }
    Link& link(Host from, Host to) { return links_.try_emplace({from, to}, usual_).first->second; }

    /// Delivers what a link that was cut has kept.
    void mend(Host one, Host other);

    /// A server that is no process listens, or does not any more (nullptr).
    void listen(Address address, Acceptor* acceptor);

    /// A client that is no process connects.
    std::shared_ptr<Stream> connect(Address from, Address to);
    /// Ends the connection: the peer reads what was sent before, then the end, or ECONNRESET.
    void close(Stream& stream, bool isReset = false);

    // for processes
    int listen(Listener& listener);
    void connect(Stream& stream, Address to);
    /// nullptr: none waits.
    static std::shared_ptr<Stream> accept(Listener& listener);
    /// Returns how many bytes were taken; 0: the buffer is full.
    std::size_t write(Stream& stream, std::string_view bytes);

    void respond(Address address, Responder& responder) { responders_[address] = &responder; }

    /// Of a process, to a Responder. A link that is cut loses it.
    void send(Datagrams& socket, std::string_view datagram);

    /// What names mean: of name servers, and of machines that have a file with them.
    std::map<std::string, Host, std::less<>>& names() { return names_; }

    /// The events of the file may have changed.
    void changed(File& file);
    void watch(Epoll& epoll, File& file, std::uint32_t interest, std::uint64_t data);
    static void unwatch(File& file);
    /// Writes the events that are ready, and returns their number.
    static int collect(Epoll& epoll, epoll_event* list, int most);

    /// Called when a process that waits in epoll_wait has events.
    void (*wake)(Process&) = nullptr;

  private:
    friend struct Stream;

    static constexpr std::size_t kMostInFlight = 256 * 1024;

    struct Held {
        std::shared_ptr<Stream> from;
        Schedule::Action arrive;
    };

    const Link& linkOf(Host from, Host to) const;
    Time arrivalAt(Stream& from);
    void deliver(Stream& from, Schedule::Action arrive);
    void answer(const std::shared_ptr<Stream>& client, Address to);
    void arrived(const std::shared_ptr<Stream>& to, std::string_view bytes);
    void end(const std::shared_ptr<Stream>& stream, int error);

    Schedule& schedule_;
    Random random_;
    Link usual_;
    std::map<std::pair<Host, Host>, Link> links_;
    std::map<std::pair<Host, Host>, std::vector<Held>> held_;  // by links that are cut
    std::map<Address, Acceptor*> acceptors_;
    std::map<Address, std::shared_ptr<ListenQueue>> queues_;
    std::map<Address, Responder*> responders_;
    std::map<std::string, Host, std::less<>> names_;
};

/// The end of a connection of what is no process. It is closed with this object, by a reset.
class Connection : public StreamOwner {
  public:
    Connection(Kernel& kernel, std::shared_ptr<Stream> stream);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    bool hasEnded() const { return stream_ == nullptr; }

  protected:
    ~Connection() { close(true); }

    void ended() override { stream_ = nullptr; }
    void close(bool isReset);

    Kernel& kernel_;
    std::shared_ptr<Stream> stream_;  // nullptr: it has ended
};

}  // namespace simulate
