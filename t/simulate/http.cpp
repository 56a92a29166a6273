#include "http.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace simulate {

namespace {

constexpr std::string_view kHeadEnd = "\r\n\r\n";

std::int64_t numberAfter(std::string_view text, std::string_view name, std::int64_t otherwise) {
    const std::size_t at = text.find(name);
    std::int64_t number = otherwise;
    if (at != std::string_view::npos) {
        std::from_chars(text.data() + at + name.size(), text.data() + text.size(), number);
    }
    return number;
}

std::string fieldOf(std::string_view head, std::string_view name) {
    const std::size_t at = head.find(name);
    return at == std::string_view::npos
               ? std::string()
               : std::string(head.substr(at + name.size(), head.find("\r\n", at + name.size()) - at - name.size()));
}

}  // namespace

Http1Client::Http1Client(Kernel& kernel, Address self, Address node) : HttpClient(kernel, kernel.connect(self, node)) {}

void Http1Client::ask(std::string_view path, std::uint64_t, Answered answered) {
    answered_ = std::move(answered);
    request_ = "GET " + std::string(path) + " HTTP/1.1\r\nHost: app\r\n\r\n";
    if (isConnected_) {
        kernel_.write(*stream_, request_);
    }
}

void Http1Client::leave(std::uint64_t) {
    answered_ = nullptr;
    close(false);
}

void Http1Client::connected() {
    isConnected_ = true;
    if (answered_ != nullptr) {
        kernel_.write(*stream_, request_);
    }
}

void Http1Client::readable() {
    const std::string_view unread = stream_->unread();
    const std::size_t end = unread.find(kHeadEnd);
    if (end == std::string_view::npos) {
        return;
    }
    const std::string_view head = unread.substr(0, end + 2);
    const auto length = static_cast<std::size_t>(numberAfter(head, "\r\nContent-Length: ", 0));
    if (unread.size() < end + kHeadEnd.size() + length) {
        return;
    }
    const Answer answer{static_cast<int>(numberAfter(head, "HTTP/1.1 ", 0)), fieldOf(head, "\r\nX-Source: "),
                        fieldOf(head, "\r\nX-Sources: "), fieldOf(head, "\r\nX-Name: "),
                        numberAfter(head, "\r\nRetry-After: ", 0)};
    stream_->consume(end + kHeadEnd.size() + length);
    finish(answer);
}

void Http1Client::ended() {
    Connection::ended();
    finish({});
}

void Http1Client::finish(const Answer& answer) {
    if (const auto answered = std::exchange(answered_, nullptr)) {
        answered(answer);
    }
}

class AppServer::Served final : public Connection, public std::enable_shared_from_this<Served> {
  public:
    Served(Kernel& kernel, std::shared_ptr<Stream> stream, Witness& witness)
        : Connection(kernel, std::move(stream)), witness_(witness) {}

    void readable() override {
        const std::string_view unread = stream_->unread();
        const std::size_t end = unread.find(kHeadEnd);
        if (end == std::string_view::npos) {
            return;
        }
        const auto status = static_cast<int>(numberAfter(unread.substr(0, end), "&s=", 200));
        const Time delay = numberAfter(unread.substr(0, end), "&d=", 0) * kMs;
        cost_ = numberAfter(unread.substr(0, end), "&x=", 0);
        number_ = static_cast<std::uint64_t>(numberAfter(unread.substr(0, end), "&n=", 0));
        stream_->consume(end + kHeadEnd.size());
        witness_.began(number_);
        kernel_.schedule().after(delay, [self = shared_from_this(), status] { self->answer(status); });
    }

  private:
    void ended() override {
        Connection::ended();
        witness_.ended(number_);
    }

    void answer(int status) {
        if (stream_ == nullptr) {
            return;
        }
        witness_.ended(number_);
        if (status == 0) {
            close(true);
        } else {
            kernel_.write(*stream_, "HTTP/1.1 " + std::to_string(status) + " App\r\nX-Cost: " + std::to_string(cost_) +
                                        "\r\nContent-Length: 0\r\n\r\n");
        }
    }

    Witness& witness_;
    std::uint64_t number_ = 0;
    std::int64_t cost_ = 0;
};

AppServer::AppServer(Kernel& kernel, Address address, Witness& witness)
    : kernel_(kernel), address_(address), witness_(witness) {
    kernel.listen(address, this);
}

AppServer::~AppServer() {
    kernel_.listen(address_, nullptr);
}

void AppServer::accepted(std::shared_ptr<Stream> stream) {
    std::erase_if(connections_, [](const auto& each) { return each->hasEnded(); });
    connections_.push_back(std::make_shared<Served>(kernel_, std::move(stream), witness_));
}

}  // namespace simulate
