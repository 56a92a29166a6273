// A redis-server whose replies are compared with those of the simulated one: it takes the arguments of redis-server,
// which it starts behind itself, and hands each command to both. Their clocks show the same. After a decision the logs
// of both are compared, too. The first difference ends it.
//
// Two servers are simulated: in one native/ decides for the scripts, in the other one they run themselves.
// $COMPARED_LOG: a file that is told the differences, and, whenever a client leaves, how much was compared so far.
// $COMPARED_MODULE: the native module, if the real server has none.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "redis/scripts.hpp"
#include "resp.hpp"
#include "server.hpp"

namespace simulate {

namespace {

[[noreturn]] void fail(const std::string& why) {
    std::perror(why.c_str());
    std::_Exit(2);
}

// ---- sockets

sockaddr_un unixAddress(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    return address;
}

int listenAt(const std::string& path) {
    unlink(path.c_str());
    const sockaddr_un address = unixAddress(path);
    const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 || listen(file, 128) != 0) {
        fail(path);
    }
    return file;
}

int listenAt(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 || listen(file, 128) != 0) {
        fail("the port");
    }
    return file;
}

int connectTo(const std::string& path) {
    const sockaddr_un address = unixAddress(path);
    for (int tries = 0; tries < 1000; tries++) {
        const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
            return file;
        }
        close(file);
        usleep(10'000);
    }
    fail(path);
}

bool writeAll(int file, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (written <= 0) {
            return false;
        }
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

/// Where the element that begins there ends; nullopt: not all of it is here.
std::optional<std::size_t> wholeElement(std::string_view bytes, std::size_t at) {
    if (bytes.find("\r\n", at) == std::string_view::npos) {
        return std::nullopt;
    }
    const Head head = headAt(bytes, at);
    if (head.kind == '$') {
        const std::size_t end = head.number < 0 ? head.next : head.next + static_cast<std::size_t>(head.number) + 2;
        return end <= bytes.size() ? std::optional(end) : std::nullopt;
    }
    std::optional<std::size_t> next = head.next;
    for (std::int64_t i = 0; next && head.kind == '*' && i < head.number; i++) {
        next = wholeElement(bytes, *next);
    }
    return next;
}

std::vector<std::string_view> wordsIn(std::string_view command) {
    std::vector<std::string_view> words;
    const Head head = headAt(command, 0);
    std::size_t at = head.next;
    for (std::int64_t i = 0; i < head.number; i++) {
        const Head word = headAt(command, at);
        words.push_back(command.substr(word.next, static_cast<std::size_t>(word.number)));
        at = word.next + static_cast<std::size_t>(word.number) + 2;
    }
    return words;
}

std::string commandOf(const std::vector<std::string>& words) {
    std::string command;
    appendArray(command, words.size());
    for (const std::string& word : words) {
        appendBulk(command, word);
    }
    return command;
}

// ---- the real server

class RealServer {
  public:
    RealServer(std::vector<std::string> arguments, std::string path, bool hasClock) : path_(std::move(path)) {
        const std::string clock = path_ + ".clock";
        if (!hasClock) {
            const int file = open(clock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
            if (file < 0 || ftruncate(file, sizeof(std::int64_t)) != 0) {
                fail(clock);
            }
            void* memory = mmap(nullptr, sizeof(std::int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            clock_ = static_cast<volatile std::int64_t*>(memory);
            close(file);
        }
        setClock();
        process_ = fork();
        if (process_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (!hasClock) {
                const auto library = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "shifted_clock.so";
                setenv("LD_PRELOAD", library.c_str(), 1);
                setenv("SHIFTED_CLOCK", clock.c_str(), 1);
                setenv("STANDING_CLOCK", "1", 1);
            }
            std::vector<char*> words;
            for (std::string& argument : arguments) {
                words.push_back(argument.data());
            }
            words.push_back(nullptr);
            execvp(words[0], words.data());
            std::_Exit(127);
        }
    }

    /// From then on the clock shows that time, which is returned (ms).
    std::int64_t setClock() {
        timespec now{};
        clock_gettime(CLOCK_REALTIME, &now);
        const std::int64_t ms = now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
        if (clock_ != nullptr) {
            *clock_ = ms;
        }
        return ms;
    }

    int connect() const { return connectTo(path_); }

    void kill() const {
        ::kill(process_, SIGKILL);
        waitpid(process_, nullptr, 0);
    }

  private:
    std::string path_;
    volatile std::int64_t* clock_ = nullptr;
    pid_t process_ = 0;
};

/// The reply to a command; empty: the connection is closed.
std::string ask(int connection, std::string_view command) {
    std::string reply;
    if (!writeAll(connection, command)) {
        return {};
    }
    std::array<char, 65536> bytes;
    while (!wholeElement(reply, 0)) {
        const ssize_t more = read(connection, bytes.data(), bytes.size());
        if (more <= 0) {
            return {};
        }
        reply.append(bytes.data(), static_cast<std::size_t>(more));
    }
    return reply;
}

// ---- the comparison

struct Simulated {
    Simulated(std::string name, const std::int64_t* clock, ServerSettings settings)
        : name(std::move(name)), server(clock, std::move(settings)) {}

    std::string name;
    Server server;
    std::uint64_t compared = 0;
    std::uint64_t logs = 0;
};

/// What native/ tells in other words than the scripts.
std::string inCommonWords(const std::string& reply) {
    static const std::regex place(R"( script: [0-9a-f]+, on @user_script:\d+[.]?)");
    static const std::regex unreadable(R"(-(ERR a log cannot be read|WRONGTYPE not a log)[^\r\n]*)");
    if (reply.find('-') == std::string::npos) {
        return reply;
    }
    return std::regex_replace(std::regex_replace(reply, place, ""), unreadable, "-unreadable");
}

std::string shown(std::string_view bytes) {
    std::string text;
    for (const char c : bytes.substr(0, 2000)) {
        char escaped[8];
        std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned char>(c));
        text += c >= ' ' && c <= '~' ? std::string(1, c) : c == '\n' ? " " : c == '\r' ? "" : escaped;
    }
    return text;
}

/// Commands whose replies depend on more than the keys.
bool isOfServer(std::string_view command) {
    static const std::set<std::string_view> all = {"acl",    "bgsave",  "client", "cluster",  "command",  "config",
                                                   "dbsize", "debug",   "dump",   "eval",     "function", "hello",
                                                   "info",   "latency", "memory", "module",   "object",   "replicaof",
                                                   "role",   "save",    "scan",   "shutdown", "slowlog",  "wait"};
    return all.contains(command);
}

class Comparison {
  public:
    Comparison(RealServer& real, const std::string& module, bool hasNative) : real_(real) {
        for (const Scripts scripts : {Scripts::ByNative, Scripts::ByLua}) {
            if (scripts == Scripts::ByLua || !module.empty()) {
                simulated_.push_back(
                    std::make_unique<Simulated>(scripts == Scripts::ByNative ? "native" : "lua", &clockUs_,
                                                ServerSettings{.nativeModule = module, .scripts = scripts}));
                if (!hasNative) {
                    simulated_.back()->server.setNative(NativeVersion::None);
                }
            }
        }
        if (const char* path = std::getenv("COMPARED_LOG")) {
            log_ = std::fopen(path, "a");
        }
    }

    struct Connection {
        int real;
        std::map<const Simulated*, Client> clients;
    };

    /// The reply of the real server to a command; empty: it has closed the connection.
    std::string execute(Connection& connection, const std::string& command) {
        const std::vector<std::string_view> words = wordsIn(command);
        clockUs_ = 1000 * real_.setClock();
        std::string reply = ask(connection.real, command);
        const std::string name = lowerCase(words[0]);
        noteScript(name, words, reply);
        for (const auto& each : simulated_) {
            if (name == "replicaof" && words.size() == 3) {
                each->server.setRole(isWord(words[1], "NO") ? Role::Master : Role::Replica);
            }
        }
        for (const auto& each : simulated_) {
            if (!reply.empty()) {
                compare(*each, connection, name, words, reply);
            }
        }
        return reply;
    }

    void tellSoFar() {
        for (const auto& each : simulated_) {
            tell(each->name + ": " + std::to_string(each->compared) + " replies and " + std::to_string(each->logs) +
                 " logs are the same");
        }
    }

  private:
    enum class Kind { Shipped, Changed, OfTest };

    void tell(const std::string& line) {
        std::fprintf(log_ != nullptr ? log_ : stderr, "%s\n", line.c_str());
        std::fflush(log_);
    }

    [[noreturn]] void differ(const Simulated& simulated, std::string_view what, Words words, std::string_view real,
                             std::string_view reply) {
        std::string line = "DIFFERENT " + simulated.name + ", " + std::string(what) + ":";
        for (const std::string_view word : words) {
            line.append(" ").append(word.empty() ? "''" : shown(word.substr(0, 200)));
        }
        tell(line.append("\n  real:      ").append(shown(real)).append("\n  simulated: ").append(shown(reply)));
        real_.kill();
        std::_Exit(1);
    }

    void noteScript(const std::string& name, Words words, const std::string& reply) {
        constexpr std::size_t kHead = 5;  // "$40\r\n"
        constexpr std::size_t kSha = 40;
        if (name == "script" && words.size() == 3 && isWord(words[1], "LOAD") && reply.size() > kHead + kSha) {
            const bool isShipped = std::ranges::any_of(sliding_log::kAlgorithms, [&](const auto& row) {
                return sliding_log::scriptSource(row.algorithm) == words[2];
            });
            const bool isOfModule = words[2].find("local LARGEST_COUNT") != std::string_view::npos;
            kinds_[reply.substr(kHead, kSha)] = isShipped ? Kind::Shipped : isOfModule ? Kind::Changed : Kind::OfTest;
        }
    }

    /// Scripts of tests are run by the real server only. native/ decides for those of the module as they are shipped.
    bool isSimulated(const Simulated& simulated, const std::string& name, Words words) {
        if (isOfServer(name)) {
            return name == "config" && words.size() == 4 && words[2].starts_with("maxmemory");
        }
        const auto kind = name == "evalsha" ? kinds_.find(lowerCase(words[1])) : kinds_.end();
        const bool hasKind = kind != kinds_.end();
        return commandNamed(name) != nullptr &&
               !(hasKind &&
                 (kind->second == Kind::OfTest || (kind->second == Kind::Changed && simulated.name == "native")));
    }

    static std::vector<std::string> keysOf(const std::string& name, Words words) {
        if (name != "evalsha" && !name.starts_with("sliding_log.")) {
            return words.size() > 1 ? std::vector<std::string>{std::string(words[1])} : std::vector<std::string>();
        }
        const bool isShort = words[1].find(' ') != std::string_view::npos;
        std::int64_t count = 1;
        if (!isShort && (words.size() < 3 || !integerIn(words[2], count) || count < 0 ||
                         count > static_cast<std::int64_t>(words.size()) - 3)) {
            return {};
        }
        std::vector<std::string> keys;
        for (const std::string_view key : words.subspan(isShort ? 2 : 3, static_cast<std::size_t>(count))) {
            keys.emplace_back(key);
            keys.push_back(std::string(key) + ":blocks");
        }
        return keys;
    }

    void compare(Simulated& simulated, Connection& connection, const std::string& name, Words words,
                 const std::string& real) {
        if (!isSimulated(simulated, name, words)) {
            for (const std::string& key : isOfServer(name) ? std::vector<std::string>() : keysOf(name, words)) {
                adopt(simulated, connection, key);
            }
            return;
        }
        std::string reply;
        simulated.server.execute(connection.clients[&simulated], words, reply);
        const bool isDecision = name == "evalsha" || name.starts_with("sliding_log.");
        if (simulated.name == "native" && reply.find("-ERR sliding_log.2: ") != std::string::npos &&
            name == "evalsha") {  // it reads all arguments before it decides, and a script does not
            for (const std::string& key : keysOf(name, words)) {
                adopt(simulated, connection, key);
            }
            return;
        }
        const bool isSame = reply == real ||
                            (isDecision && simulated.name == "native" && inCommonWords(reply) == inCommonWords(real)) ||
                            (name == "hgetall" && sorted(reply) == sorted(real));
        if (!isSame) {
            differ(simulated, "the reply", words, real, reply);
        }
        simulated.compared++;
        for (const std::string& key : isDecision ? keysOf(name, words) : std::vector<std::string>()) {
            compareKey(simulated, connection, words, key);
        }
    }

    /// The elements in any order: a HASH that has become large has an order of its own.
    static std::vector<std::string> sorted(const std::string& reply) {
        std::vector<std::string> pairs;
        const Head head = headAt(reply, 0);
        std::size_t at = head.next;
        for (std::int64_t i = 0; i + 1 < head.number; i += 2) {
            const std::size_t end = endOfElement(reply, endOfElement(reply, at));
            pairs.push_back(reply.substr(at, end - at));
            at = end;
        }
        std::ranges::sort(pairs);
        return pairs;
    }

    void compareKey(Simulated& simulated, Connection& connection, Words words, const std::string& key) {
        std::string type = same(simulated, connection, words, {"TYPE", key});
        same(simulated, connection, words, {"PEXPIRETIME", key});
        if (type == "+string\r\n") {
            same(simulated, connection, words, {"GET", key});
        } else if (type == "+zset\r\n") {
            same(simulated, connection, words, {"ZRANGE", key, "0", "-1", "WITHSCORES"});
        } else if (type == "+hash\r\n") {
            same(simulated, connection, words, {"HGETALL", key});
        }
        simulated.logs++;
    }

    /// Has the simulated server hold what the real one does.
    void adopt(Simulated& simulated, Connection& connection, const std::string& key) {
        const auto told = [&](std::vector<std::string> question) { return ask(connection.real, commandOf(question)); };
        const auto write = [&](const std::vector<std::string>& command) {
            const std::vector<std::string_view> words(command.begin(), command.end());
            std::string reply;
            Client client;
            simulated.server.execute(client, words, reply);
        };
        const std::string type = told({"TYPE", key});
        const std::string expiry = told({"PEXPIRETIME", key});
        write({"DEL", key});
        if (type == "+string\r\n") {
            const std::string value = told({"GET", key});
            write({"SET", key, value.substr(headAt(value, 0).next, static_cast<std::size_t>(headAt(value, 0).number))});
        } else if (type == "+hash\r\n" || type == "+zset\r\n") {
            const bool isHash = type == "+hash\r\n";
            std::vector<std::string> command = {isHash ? "HSET" : "ZADD", key};
            const std::string value = told(isHash ? std::vector<std::string>{"HGETALL", key}
                                                  : std::vector<std::string>{"ZRANGE", key, "0", "-1", "WITHSCORES"});
            for (const std::string_view word : wordsIn(value)) {
                command.emplace_back(word);
            }
            for (std::size_t i = 2; !isHash && i < command.size(); i += 2) {
                std::swap(command[i], command[i + 1]);
            }
            write(command);
        } else if (type != "+none\r\n") {
            write({"RPUSH", key, "an element"});
        }
        if (const std::int64_t ms = headAt(expiry, 0).number; ms >= 0) {
            write({"PEXPIREAT", key, std::to_string(ms)});
        }
    }

    std::string same(Simulated& simulated, Connection& connection, Words words,
                     const std::vector<std::string>& question) {
        const std::string real = ask(connection.real, commandOf(question));
        const std::vector<std::string_view> asked(question.begin(), question.end());
        std::string reply;
        Client client;
        client.isAuthenticated = true;
        simulated.server.execute(client, asked, reply);
        if (reply != real && !(question[0] == "HGETALL" && sorted(reply) == sorted(real))) {
            differ(simulated, "what " + question[0] + " " + shown(question[1]) + " tells after", words, real, reply);
        }
        return reply;
    }

    RealServer& real_;
    std::int64_t clockUs_ = 0;
    std::vector<std::unique_ptr<Simulated>> simulated_;
    std::map<std::string, Kind> kinds_;  // of scripts, by their SHA-1
    std::FILE* log_ = nullptr;
};

// ---- the program

volatile sig_atomic_t isEnding = 0;

struct Peer {
    int file;
    std::string received;
    Comparison::Connection connection;
};

/// Answers what a client has sent; false when it has left.
bool serve(Peer& peer, Comparison& comparison) {
    std::array<char, 65536> bytes;
    const ssize_t more = read(peer.file, bytes.data(), bytes.size());
    if (more <= 0) {
        return false;
    }
    peer.received.append(bytes.data(), static_cast<std::size_t>(more));
    std::string replies;
    std::size_t at = 0;
    while (const std::optional<std::size_t> end =
               at < peer.received.size() ? wholeElement(peer.received, at) : std::nullopt) {
        const std::string reply = comparison.execute(peer.connection, peer.received.substr(at, *end - at));
        if (reply.empty()) {
            return false;
        }
        replies.append(reply);
        at = *end;
    }
    peer.received.erase(0, at);
    return writeAll(peer.file, replies);
}

void run(Comparison& comparison, const RealServer& real, const std::vector<int>& listeners) {
    std::vector<std::unique_ptr<Peer>> peers;
    while (isEnding == 0) {
        std::vector<pollfd> polled;
        for (const int listener : listeners) {
            polled.push_back({.fd = listener, .events = POLLIN, .revents = 0});
        }
        for (const auto& peer : peers) {
            polled.push_back({.fd = peer->file, .events = POLLIN, .revents = 0});
        }
        if (poll(polled.data(), polled.size(), -1) < 0) {
            continue;
        }
        for (std::size_t i = polled.size(); i > 0; i--) {
            if (polled[i - 1].revents == 0) {
                continue;
            }
            if (i <= listeners.size()) {
                const int file = accept4(polled[i - 1].fd, nullptr, nullptr, SOCK_CLOEXEC);
                peers.push_back(std::make_unique<Peer>(Peer{file, {}, {real.connect(), {}}}));
            } else if (const std::size_t place = i - 1 - listeners.size(); !serve(*peers[place], comparison)) {
                close(peers[place]->file);
                close(peers[place]->connection.real);
                peers.erase(peers.begin() + static_cast<std::ptrdiff_t>(place));
                comparison.tellSoFar();
            }
        }
    }
}

int start(const std::vector<std::string>& given) {
    std::vector<std::string> arguments = {"redis-server"};
    std::string path;
    std::string module;
    int port = 0;
    bool hasNative = false;
    for (std::size_t i = 1; i < given.size(); i++) {
        const bool hasNext = i + 1 < given.size();
        arguments.push_back(given[i]);
        if (given[i] == "--port" && hasNext) {
            port = std::atoi(given[++i].c_str());
            arguments.emplace_back("0");
        } else if (given[i] == "--unixsocket" && hasNext) {
            path = given[++i];
            arguments.push_back(path + ".real");
        } else if (given[i] == "--loadmodule" && hasNext) {
            module = given[++i];
            arguments.push_back(module);
            hasNative = true;
        }
    }
    if (const char* other = std::getenv("COMPARED_MODULE"); other != nullptr && module.empty()) {
        module = other;
    }
    RealServer real(arguments, path + ".real", std::getenv("STANDING_CLOCK") != nullptr);
    Comparison comparison(real, module, hasNative);
    std::vector<int> listeners = {listenAt(path)};
    if (port != 0) {
        listeners.push_back(listenAt(port));
    }
    struct sigaction action {};
    action.sa_handler = [](int) { isEnding = 1; };
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
    run(comparison, real, listeners);
    real.kill();
    return 0;
}

}  // namespace

}  // namespace simulate

int main(int count, char** arguments) {
    return simulate::start({arguments, arguments + count});
}
