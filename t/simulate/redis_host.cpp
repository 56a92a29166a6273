#include "redis_host.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include "plan.hpp"
#include "received_command.hpp"
#include "redis/commands.hpp"
#include "redis/keyspace.hpp"

namespace simulate {

namespace {

/// Of the native module's code.
constexpr Time kBlock = 2;

}  // namespace

class RedisHost::Served final : public Connection {
  public:
    Served(RedisHost& host, std::shared_ptr<Stream> stream)
        : Connection(host.kernel_, std::move(stream)), host_(host) {}

    void readable() override { host_.pend(*this); }
    void ended() override {
        Connection::ended();
        host_.forget(*this);
    }

    /// Executes all commands that have arrived, and returns how long that takes.
    Time execute() {
        Time sum = 0;
        std::string replies;
        std::size_t used = 0;
        for (;;) {
            const std::vector<std::string_view> words = firstCommand(stream_->unread(), used);
            if (words.empty()) {
                break;
            }
            host_.setClock(kernel_.schedule().now() + sum);
            const std::uint64_t blocks = blocksOfNative();
            const Time took = host_.server_->execute(client_, words, replies) * kUs;
            sum += took;
            // blocks take no time in the simulation, since another compiler makes others
            host_.count(words, used, took, took + kBlock * static_cast<Time>(blocksOfNative() - blocks));
            stream_->consume(used);
        }
        if (!replies.empty()) {
            kernel_.schedule().after(sum, [&kernel = kernel_, stream = stream_->weak(), text = std::move(replies)] {
                if (const auto to = stream.lock(); to != nullptr && to->state == Stream::State::Connected) {
                    kernel.write(*to, text);
                }
            });
        }
        return sum;
    }

    bool isPending = false;

  private:
    RedisHost& host_;
    Client client_;
};

RedisHost::RedisHost(Kernel& kernel, Machine& machine, ServerSettings settings)
    : kernel_(kernel),
      machine_(machine),
      settings_(std::move(settings)),
      address_{machine.host, static_cast<std::uint16_t>(settings_.port)} {
    start(false);
}

RedisHost::~RedisHost() {
    crash();
}

void RedisHost::start(bool keepsData) {
    if (!keepsData || server_ == nullptr) {
        const auto cluster = server_ == nullptr ? std::nullopt : server_->cluster();  // it is in a file of its own
        server_ = nullptr;
        server_ = std::make_unique<Server>(&clockUs_, settings_);
        if (configure_ != nullptr) {
            configure_(*server_);
            server_->cluster() = cluster;
        }
    } else {
        server_->scriptFlush();
    }
    isUp_ = true;
    isStopped_ = false;
    kernel_.listen(address_, this);
}

void RedisHost::configure(std::function<void(Server&)> configure) {
    configure_ = std::move(configure);
    configure_(*server_);
}

void RedisHost::setClock(Time time) {
    clockUs_ = (machine_.wallAhead + time) / kUs;
}

void RedisHost::setClock() {
    setClock(kernel_.schedule().now());
}

void RedisHost::dropConnections() {
    pending_.clear();
    connections_.clear();
}

void RedisHost::expire() {
    setClock();
    server_->expire(server_->keyspace().size());
}

void RedisHost::crash() {
    life_++;
    isUp_ = false;
    isPlanned_ = false;
    kernel_.listen(address_, nullptr);
    pending_.clear();
    connections_.clear();
}

void RedisHost::stop() {
    isStopped_ = true;
}

void RedisHost::resume() {
    isStopped_ = false;
    workSoon();
}

void RedisHost::beBusy(Time time) {
    busyUntil_ = std::max(busyUntil_, kernel_.schedule().now()) + time;
}

void RedisHost::accepted(std::shared_ptr<Stream> stream) {
    got({.connects = 1});
    connections_.push_back(std::make_unique<Served>(*this, std::move(stream)));
}

void RedisHost::pend(Served& connection) {
    if (!std::exchange(connection.isPending, true)) {
        pending_.push_back(&connection);
    }
    workSoon();
}

void RedisHost::workSoon() {
    if (isUp_ && !isStopped_ && !pending_.empty() && !std::exchange(isPlanned_, true)) {
        kernel_.schedule().at(busyUntil_, [this, life = life_] {
            if (life == life_) {
                isPlanned_ = false;
                work();
            }
        });
    }
}

void RedisHost::work() {
    if (!isStopped_ && !pending_.empty() && busyUntil_ <= kernel_.schedule().now()) {
        Served& next = *pending_.front();
        pending_.pop_front();
        next.isPending = false;
        busyUntil_ = kernel_.schedule().now() + next.execute();
    }
    workSoon();
}

void RedisHost::count(const std::vector<std::string_view>& words, std::size_t bytes, Time work, Time longest) {
    const auto isNameOfLog = [](std::string_view word) {
        return word.starts_with(kPrefix) && !word.ends_with(":override");
    };
    const bool isOfLog = std::ranges::any_of(words | std::views::take(6), isNameOfLog);
    got({.bytes = bytes,
         .ofLogs = isOfLog ? 1U : 0U,
         .scriptLoads = isWord(words[0], "SCRIPT") && words.size() == 3 ? 1U : 0U,
         .mapRequests = isWord(words[0], "CLUSTER") && words.size() == 2 ? 1U : 0U,
         .work = work,
         .longest = isOfLog ? longest : 0});
}

void RedisHost::got(const Traffic& more) {
    const auto second = static_cast<std::size_t>(kernel_.schedule().now() / kSecond);
    seconds_.resize(std::max(seconds_.size(), second + 1));
    seconds_[second] += more;
    traffic_ += more;
}

void RedisHost::forget(const Served& connection) {
    std::erase(pending_, &connection);
    std::erase_if(connections_, [&](const auto& each) { return each.get() == &connection; });
}

}  // namespace simulate
