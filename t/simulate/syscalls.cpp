// The system as processes of the simulation see it: functions of libc that nginx, hiredis and the module call, in place
// of libc's. Outside a simulated process, and for descriptors that are not simulated, they call the system.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "process.hpp"

using namespace simulate;

namespace {

bool isSimulated(int descriptor) {
    return descriptor >= Process::kFirstFile;
}

template <typename... Arguments>
long system(long number, Arguments... arguments) {
    return syscall(number, arguments...);
}

int fail(int error) {
    errno = error;
    return -1;
}

template <typename T>
std::shared_ptr<T> fileOf(int descriptor) {
    Process* process = current();
    return process == nullptr ? nullptr : std::dynamic_pointer_cast<T>(process->file(descriptor));
}

Address addressOf(const sockaddr* address) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(address);
    return {ntohl(in->sin_addr.s_addr), ntohs(in->sin_port)};
}

void writeAddress(Address from, sockaddr* address, socklen_t* length) {
    if (address == nullptr || length == nullptr) {
        return;
    }
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(from.host);
    in.sin_port = htons(from.port);
    std::memcpy(address, &in, std::min<std::size_t>(*length, sizeof in));
    *length = sizeof in;
}

std::uint16_t nextPort() {
    Process& process = *current();
    process.machine.nextPort = process.machine.nextPort < 65'000 ? process.machine.nextPort + 1 : 20'000;
    return process.machine.nextPort;
}

/// A socket before it is known what it is for, and an eventfd, which is never used.
struct Unbound final : File {
    std::uint32_t events() const override { return 0; }
    Address local{};
};

/// What getaddrinfo() finds.
struct Resolved {
    addrinfo info;  // first member: freeaddrinfo() gets it
    sockaddr_in address;
};

ssize_t receive(Datagrams& socket, char* to, std::size_t size) {
    if (socket.received.empty()) {
        return fail(EAGAIN);
    }
    const std::string datagram = std::move(socket.received.front());
    socket.received.pop_front();
    const std::size_t taken = std::min(size, datagram.size());
    std::memcpy(to, datagram.data(), taken);
    return static_cast<ssize_t>(taken);
}

ssize_t receive(int descriptor, char* to, std::size_t size, bool isPeek) {
    const auto stream = fileOf<Stream>(descriptor);
    if (stream == nullptr) {
        const auto socket = fileOf<Datagrams>(descriptor);
        return socket == nullptr ? fail(ENOTCONN) : receive(*socket, to, size);
    }
    const std::string_view unread = stream->unread();
    if (!unread.empty()) {
        const std::size_t taken = std::min(size, unread.size());
        std::memcpy(to, unread.data(), taken);
        if (!isPeek) {
            stream->consume(taken);
        }
        return static_cast<ssize_t>(taken);
    }
    if (stream->error != 0) {
        return fail(std::exchange(stream->error, 0));
    }
    return stream->hasEnd || stream->state == Stream::State::Ended ? 0 : fail(EAGAIN);
}

ssize_t transmit(int descriptor, std::string_view bytes) {
    const auto stream = fileOf<Stream>(descriptor);
    if (stream == nullptr) {
        const auto socket = fileOf<Datagrams>(descriptor);
        if (socket == nullptr) {
            return fail(ENOTCONN);
        }
        current()->kernel.send(*socket, bytes);
        return static_cast<ssize_t>(bytes.size());
    }
    if (stream->state == Stream::State::Connecting) {
        return fail(EAGAIN);
    }
    if (stream->state == Stream::State::Ended) {
        return fail(stream->error != 0 ? std::exchange(stream->error, 0) : EPIPE);
    }
    const std::size_t taken = stream->kernel->write(*stream, bytes);
    return taken == 0 && !bytes.empty() ? fail(EAGAIN) : static_cast<ssize_t>(taken);
}

timespec asTimespec(Time time) {
    return {time / kSecond, time % kSecond};
}

Time timeOf(const Process& process, clockid_t clock) {
    const Time now = process.kernel.schedule().now();
    switch (clock) {
        case CLOCK_REALTIME:
        case CLOCK_REALTIME_COARSE:
            return process.machine.wallAhead + now;
        default:
            return process.machine.bootedBefore + now;
    }
}

}  // namespace

extern "C" {

// ---- time

int clock_gettime(clockid_t clock, timespec* time) noexcept {
    if (const Process* process = current()) {
        *time = asTimespec(timeOf(*process, clock));
        return 0;
    }
    return static_cast<int>(system(SYS_clock_gettime, clock, time));
}

int gettimeofday(timeval* time, void*) noexcept {
    timespec precise{};
    clock_gettime(CLOCK_REALTIME, &precise);
    time->tv_sec = precise.tv_sec;
    time->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t* to) noexcept {
    timespec precise{};
    clock_gettime(CLOCK_REALTIME, &precise);
    if (to != nullptr) {
        *to = precise.tv_sec;
    }
    return precise.tv_sec;
}

int usleep(useconds_t us) {
    Process* process = current();
    if (process == nullptr) {
        return 0;
    }
    process->kernel.schedule().after(us * kUs, [process] { wake(*process); });
    waitInKernel();
    return 0;
}

// ---- processes

pid_t getpid() noexcept {
    const Process* process = current();
    return process == nullptr ? static_cast<pid_t>(system(SYS_getpid)) : process->pid;
}

pid_t getppid() noexcept {
    return current() == nullptr ? static_cast<pid_t>(system(SYS_getppid)) : 1;
}

int kill(pid_t pid, int signal) noexcept {
    const Process* process = current();
    if (process == nullptr) {
        return static_cast<int>(system(SYS_kill, pid, signal));
    }
    return process->machine.processes.contains(pid) ? 0 : fail(ESRCH);
}

int sched_yield() noexcept {
    if (current() != nullptr) {
        sleepInKernel(kUs);
    }
    return 0;
}

long random() noexcept {
    Process* process = current();
    return process == nullptr ? 0 : static_cast<long>(process->random.below(std::uint64_t{1} << 31));
}

void srandom(unsigned) noexcept {}

int RAND_bytes(unsigned char* to, int length) {
    for (int i = 0; i < length; i++) {
        to[i] = static_cast<unsigned char>(current()->random.next());
    }
    return 1;
}

/// A thread of a process does all that it has to do at some time, if the process still lives then: it shares nothing of
/// the simulation.
int pthread_create(pthread_t* thread, const pthread_attr_t*, void* (*run)(void*), void* argument) noexcept {
    constexpr Time kReadTakes = 2 * kMs;
    Process& process = *current();
    *thread = {};
    process.kernel.schedule().after(drawn(process.random, kReadTakes),
                                    [&machine = process.machine, pid = process.pid, run, argument] {
                                        if (machine.processes.contains(pid)) {
                                            run(argument);
                                        }
                                    });
    return 0;
}

// ---- descriptors

int socket(int family, int type, int protocol) noexcept {
    if (current() == nullptr) {
        return static_cast<int>(system(SYS_socket, family, type, protocol));
    }
    if (family != AF_INET) {
        return fail(EAFNOSUPPORT);
    }
    constexpr int kType = 0xf;  // without flags
    return (type & kType) == SOCK_DGRAM ? current()->add(std::make_shared<Datagrams>())
                                        : current()->add(std::make_shared<Unbound>());
}

int socketpair(int family, int type, int protocol, int pair[2]) noexcept {
    Process* process = current();
    if (process == nullptr) {
        return static_cast<int>(system(SYS_socketpair, family, type, protocol, pair));
    }
    const auto one = std::make_shared<Stream>();
    const auto other = std::make_shared<Stream>();
    for (const auto& [stream, peer] : {std::pair(one, other), std::pair(other, one)}) {
        stream->kernel = &process->kernel;
        stream->state = Stream::State::Connected;
        stream->local = stream->remote = {process->machine.host, 0};
        stream->peer = peer;
    }
    pair[0] = process->add(one);
    pair[1] = process->add(other);
    return 0;
}

int eventfd(unsigned initial, int flags) noexcept {
    return current() == nullptr ? static_cast<int>(system(SYS_eventfd2, initial, flags))
                                : current()->add(std::make_shared<Unbound>());
}

int bind(int descriptor, const sockaddr* address, socklen_t length) noexcept {
    if (!isSimulated(descriptor)) {
        return static_cast<int>(system(SYS_bind, descriptor, address, length));
    }
    const auto unbound = fileOf<Unbound>(descriptor);
    if (unbound == nullptr) {
        return fail(EINVAL);
    }
    unbound->local = addressOf(address);
    unbound->local.host = current()->machine.host;
    return 0;
}

int listen(int descriptor, int backlog) noexcept {
    if (!isSimulated(descriptor)) {
        return static_cast<int>(system(SYS_listen, descriptor, backlog));
    }
    Process& process = *current();
    if (const auto unbound = fileOf<Unbound>(descriptor)) {
        auto listener = std::make_shared<Listener>();
        listener->kernel = &process.kernel;
        listener->address = unbound->local;
        process.replace(descriptor, listener);
    }
    const auto listener = fileOf<Listener>(descriptor);
    return listener == nullptr ? fail(EINVAL) : process.kernel.listen(*listener);
}

int accept4(int descriptor, sockaddr* address, socklen_t* length, int) {
    const auto listener = fileOf<Listener>(descriptor);
    if (listener == nullptr) {
        return fail(EINVAL);
    }
    std::shared_ptr<Stream> stream = Kernel::accept(*listener);
    if (stream == nullptr) {
        return fail(EAGAIN);
    }
    writeAddress(stream->remote, address, length);
    return current()->add(std::move(stream));
}

int accept(int descriptor, sockaddr* address, socklen_t* length) {
    return accept4(descriptor, address, length, 0);
}

int connect(int descriptor, const sockaddr* address, socklen_t length) {
    if (!isSimulated(descriptor)) {
        return static_cast<int>(system(SYS_connect, descriptor, address, length));
    }
    Process& process = *current();
    if (const auto stream = fileOf<Stream>(descriptor)) {  // hiredis asks again what has become of it
        switch (stream->state) {
            case Stream::State::Connecting:
                return fail(EALREADY);
            case Stream::State::Connected:
                return fail(EISCONN);
            case Stream::State::Ended:
                return fail(stream->error != 0 ? stream->error : ECONNREFUSED);
        }
    }
    if (const auto socket = fileOf<Datagrams>(descriptor)) {
        socket->local = {process.machine.host, nextPort()};
        socket->remote = addressOf(address);
        return 0;
    }
    const auto unbound = fileOf<Unbound>(descriptor);
    if (unbound == nullptr) {
        return fail(EBADF);
    }
    auto stream = std::make_shared<Stream>();
    stream->kernel = &process.kernel;
    stream->local = {process.machine.host, nextPort()};
    stream->watcher = unbound->watcher;  // nginx watches it first
    stream->interest = unbound->interest;
    stream->data = unbound->data;
    process.replace(descriptor, stream);
    process.kernel.connect(*stream, addressOf(address));
    return fail(EINPROGRESS);
}

int close(int descriptor) {
    if (!isSimulated(descriptor)) {
        return static_cast<int>(system(SYS_close, descriptor));
    }
    return current() != nullptr && current()->close(descriptor) ? 0 : fail(EBADF);
}

/// nginx lets its log take the place of stderr, which is that of the simulation.
int dup2(int from, int to) noexcept {
    return current() == nullptr ? static_cast<int>(system(SYS_dup2, from, to)) : to;
}

int shutdown(int descriptor, int how) noexcept {
    return isSimulated(descriptor) ? 0 : static_cast<int>(system(SYS_shutdown, descriptor, how));
}

int getsockname(int descriptor, sockaddr* address, socklen_t* length) noexcept {
    if (!isSimulated(descriptor)) {
        return static_cast<int>(system(SYS_getsockname, descriptor, address, length));
    }
    const auto stream = fileOf<Stream>(descriptor);
    writeAddress(stream == nullptr ? Address{} : stream->local, address, length);
    return 0;
}

int getsockopt(int descriptor, int level, int option, void* value, socklen_t* length) noexcept {
    if (!isSimulated(descriptor)) {
        return static_cast<int>(system(SYS_getsockopt, descriptor, level, option, value, length));
    }
    const auto stream = fileOf<Stream>(descriptor);
    const int error = option == SO_ERROR && stream != nullptr ? std::exchange(stream->error, 0) : 0;
    std::memcpy(value, &error, std::min<std::size_t>(*length, sizeof error));
    return 0;
}

int setsockopt(int descriptor, int level, int option, const void* value, socklen_t length) noexcept {
    return isSimulated(descriptor) ? 0
                                   : static_cast<int>(system(SYS_setsockopt, descriptor, level, option, value, length));
}

int ioctl(int descriptor, unsigned long request, ...) noexcept {
    va_list arguments;
    va_start(arguments, request);
    void* argument = va_arg(arguments, void*);
    va_end(arguments);
    if (!isSimulated(descriptor)) {
        return static_cast<int>(system(SYS_ioctl, descriptor, request, argument));
    }
    if (request == FIONREAD) {
        const auto stream = fileOf<Stream>(descriptor);
        *static_cast<int*>(argument) = stream == nullptr ? 0 : static_cast<int>(stream->unread().size());
    }
    return 0;
}

int fcntl64(int descriptor, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void* argument = va_arg(arguments, void*);
    va_end(arguments);
    return isSimulated(descriptor) ? 0 : static_cast<int>(system(SYS_fcntl, descriptor, command, argument));
}

int fcntl(int descriptor, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void* argument = va_arg(arguments, void*);
    va_end(arguments);
    return fcntl64(descriptor, command, argument);
}

// ---- names

/// An address, or a name: without a wait, as from a file of the machine.
int getaddrinfo(const char* name, const char* port, const addrinfo*, addrinfo** list) {
    if (current() == nullptr) {
        return EAI_FAIL;
    }
    in_addr address{};
    if (inet_pton(AF_INET, name, &address) != 1) {
        const auto& names = current()->kernel.names();
        const auto found = names.find(std::string_view(name));
        if (found == names.end()) {
            return EAI_NONAME;
        }
        address.s_addr = htonl(found->second);
    }
    auto* resolved = new Resolved{};
    resolved->address.sin_family = AF_INET;
    resolved->address.sin_addr = address;
    resolved->address.sin_port = htons(static_cast<std::uint16_t>(port == nullptr ? 0 : std::atoi(port)));
    resolved->info.ai_family = AF_INET;
    resolved->info.ai_socktype = SOCK_STREAM;
    resolved->info.ai_addrlen = sizeof resolved->address;
    resolved->info.ai_addr = reinterpret_cast<sockaddr*>(&resolved->address);
    *list = &resolved->info;
    return 0;
}

void freeaddrinfo(addrinfo* list) noexcept {
    delete reinterpret_cast<Resolved*>(list);
}

// ---- bytes

ssize_t recv(int descriptor, void* to, std::size_t size, int flags) {
    return isSimulated(descriptor) ? receive(descriptor, static_cast<char*>(to), size, (flags & MSG_PEEK) != 0)
                                   : system(SYS_recvfrom, descriptor, to, size, flags, nullptr, nullptr);
}

ssize_t read(int descriptor, void* to, std::size_t size) {
    return isSimulated(descriptor) ? receive(descriptor, static_cast<char*>(to), size, false)
                                   : system(SYS_read, descriptor, to, size);
}

ssize_t readv(int descriptor, const iovec* parts, int count) {
    if (!isSimulated(descriptor)) {
        return system(SYS_readv, descriptor, parts, count);
    }
    ssize_t sum = 0;
    for (int i = 0; i < count; i++) {
        const ssize_t one = receive(descriptor, static_cast<char*>(parts[i].iov_base), parts[i].iov_len, false);
        if (one < 0) {
            return sum > 0 ? sum : one;
        }
        sum += one;
        if (static_cast<std::size_t>(one) < parts[i].iov_len) {
            break;
        }
    }
    return sum;
}

ssize_t send(int descriptor, const void* from, std::size_t size, int flags) {
    return isSimulated(descriptor) ? transmit(descriptor, {static_cast<const char*>(from), size})
                                   : system(SYS_sendto, descriptor, from, size, flags, nullptr, 0);
}

ssize_t write(int descriptor, const void* from, std::size_t size) {
    return isSimulated(descriptor) ? transmit(descriptor, {static_cast<const char*>(from), size})
                                   : system(SYS_write, descriptor, from, size);
}

ssize_t writev(int descriptor, const iovec* parts, int count) {
    if (!isSimulated(descriptor)) {
        return system(SYS_writev, descriptor, parts, count);
    }
    std::string all;
    for (int i = 0; i < count; i++) {
        all.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
    }
    return transmit(descriptor, all);
}

// ---- waiting

int epoll_create(int) noexcept {
    return current()->add(std::make_shared<Epoll>());
}

int epoll_ctl(int epollDescriptor, int operation, int descriptor, epoll_event* event) noexcept {
    const auto epoll = fileOf<Epoll>(epollDescriptor);
    const auto file = fileOf<File>(descriptor);
    if (epoll == nullptr || file == nullptr) {
        return fail(EBADF);
    }
    if (operation == EPOLL_CTL_DEL) {
        Kernel::unwatch(*file);
    } else {
        current()->kernel.watch(*epoll, *file, event->events, event->data.u64);
    }
    return 0;
}

int epoll_wait(int descriptor, epoll_event* events, int most, int timeoutMs) {
    const auto epoll = fileOf<Epoll>(descriptor);
    if (epoll == nullptr) {
        return fail(EBADF);
    }
    Process* process = current();
    int found = Kernel::collect(*epoll, events, most);
    if (found == 0 && timeoutMs != 0 && !process->isInterrupted) {
        epoll->waiter = process;
        const std::uint64_t wait = ++process->wait;
        if (timeoutMs > 0) {
            process->kernel.schedule().after(timeoutMs * kMs, [process, wait] {
                if (process->wait == wait) {
                    wake(*process);
                }
            });
        }
        waitInKernel();
        process->wait++;
        epoll->waiter = nullptr;
        found = Kernel::collect(*epoll, events, most);
    }
    if (found == 0 && std::exchange(process->isInterrupted, false)) {
        return fail(EINTR);
    }
    return found;
}

// glibc says that poll() only writes to the list, and it reads what is asked for
int pollOne(pollfd* list, nfds_t count, int timeoutMs) __asm__("poll");
int pollOne(pollfd* list, nfds_t count, int timeoutMs) {
    if (count != 1 || !isSimulated(list->fd)) {
        return static_cast<int>(system(SYS_poll, list, count, timeoutMs));
    }
    const auto file = fileOf<File>(list->fd);  // hiredis asks whether it is connected
    const std::uint32_t events = file == nullptr ? EPOLLERR : file->events();
    list->revents = static_cast<short>(events & (static_cast<std::uint32_t>(list->events) | EPOLLERR | EPOLLHUP));
    return list->revents != 0 ? 1 : 0;
}

int sem_wait(sem_t* semaphore) {
    for (Time pause = kUs; sem_trywait(semaphore) != 0; pause = std::min(2 * pause, kMs)) {
        sleepInKernel(pause);
    }
    return 0;
}
}
