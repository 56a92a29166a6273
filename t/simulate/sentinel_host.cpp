#include "sentinel_host.hpp"

#include <set>
#include <utility>

#include "received_command.hpp"
#include "redis/commands.hpp"
#include "redis/resp.hpp"

namespace simulate {

namespace {

/// As events have it: host and port.
std::string wordsOf(Address address) {
    return textOf(address.host) + " " + std::to_string(address.port);
}

}  // namespace

/// A client that asks, or listens.
class SentinelHost::Watcher final : public Connection {
  public:
    Watcher(const SentinelHost& host, std::shared_ptr<Stream> stream)
        : Connection(host.kernel_, std::move(stream)), host_(host) {}

    void readable() override {
        std::string replies;
        std::size_t used = 0;
        for (;;) {
            const std::vector<std::string_view> words = firstCommand(stream_->unread(), used);
            if (words.empty()) {
                break;
            }
            execute(words, replies);
            stream_->consume(used);
        }
        kernel_.write(*stream_, replies);
    }

    void hear(std::string_view channel, const std::string& text) {
        if (!hasEnded() && channels_.contains(std::string(channel))) {
            std::string message;
            appendArray(message, 3);
            appendBulk(message, "message");
            appendBulk(message, channel);
            appendBulk(message, text);
            kernel_.write(*stream_, message);
        }
    }

  private:
    void execute(const std::vector<std::string_view>& words, std::string& replies) {
        if (isWord(words[0], "SUBSCRIBE")) {
            channels_.emplace(words.at(1));
            appendArray(replies, 3);
            appendBulk(replies, "subscribe");
            appendBulk(replies, words.at(1));
            appendInteger(replies, static_cast<std::int64_t>(channels_.size()));
        } else if (words.size() == 3 && isWord(words[0], "SENTINEL") && words[2] == kMaster) {
            appendArray(replies, 2);
            appendBulk(replies, textOf(host_.master_.host));
            appendBulk(replies, std::to_string(host_.master_.port));
        } else {
            appendError(replies, "ERR unknown command");
        }
    }

    const SentinelHost& host_;
    std::set<std::string> channels_;
};

SentinelHost::SentinelHost(Kernel& kernel, Address address, Address master)
    : kernel_(kernel), address_(address), master_(master) {
    kernel_.listen(address_, this);
}

SentinelHost::~SentinelHost() {
    crash();
}

void SentinelHost::accepted(std::shared_ptr<Stream> stream) {
    std::erase_if(watchers_, [](const auto& each) { return each->hasEnded(); });
    watchers_.push_back(std::make_unique<Watcher>(*this, std::move(stream)));
}

void SentinelHost::publish(std::string_view channel, const std::string& text) {
    for (const auto& watcher : watchers_) {
        watcher->hear(channel, text);
    }
}

void SentinelHost::promoted(Address server) {
    publish("+promoted-slave", "slave " + textOf(server.host) + ":" + std::to_string(server.port) + " " +
                                   wordsOf(server) + " @ " + std::string(kMaster) + " " + wordsOf(master_));
    master_ = server;
}

void SentinelHost::learn(Address master) {
    const Address before = std::exchange(master_, master);
    publish("+switch-master", std::string(kMaster) + " " + wordsOf(before) + " " + wordsOf(master));
}

void SentinelHost::crash() {
    isUp_ = false;
    kernel_.listen(address_, nullptr);
    watchers_.clear();
}

void SentinelHost::start() {
    if (!std::exchange(isUp_, true)) {
        kernel_.listen(address_, this);
    }
}

}  // namespace simulate
