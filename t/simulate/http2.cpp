#include "http2.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace simulate {

namespace {

std::string_view textOf(const std::uint8_t* bytes, std::size_t size) {
    return {reinterpret_cast<const char*>(bytes), size};
}

std::int64_t numberIn(std::string_view text) {
    std::int64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

/// nghttp2 copies what it is given.
nghttp2_nv field(std::string_view name, std::string_view value) {
    const auto bytes = [](std::string_view text) {
        return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
    };
    return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

Http2Client::Http2Client(Kernel& kernel, Address self, Address node, std::size_t most)
    : HttpClient(kernel, kernel.connect(self, node)), most_(most) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, fieldCame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, streamEnded);
    nghttp2_session* session = nullptr;
    nghttp2_session_client_new(&session, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    session_.reset(session);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, nullptr, 0);
}

bool Http2Client::isFree() const {
    return stream_ != nullptr && requests_.size() < most_ && nghttp2_session_check_request_allowed(session_.get()) != 0;
}

void Http2Client::ask(std::string_view path, std::uint64_t number, Answered answered) {
    const std::array<nghttp2_nv, 4> fields = {field(":method", "GET"), field(":scheme", "http"),
                                              field(":authority", "app"), field(":path", path)};
    const std::int32_t stream =
        nghttp2_submit_request(session_.get(), nullptr, fields.data(), fields.size(), nullptr, nullptr);
    requests_[stream] = {number, std::move(answered), {}};
    send();
}

void Http2Client::leave(std::uint64_t number) {
    const auto found = std::ranges::find(requests_, number, [](const auto& each) { return each.second.number; });
    if (found == requests_.end()) {
        return;
    }
    const std::int32_t stream = found->first;
    requests_.erase(found);
    if (requests_.empty() && number % 2 == 0) {
        close(false);
        return;
    }
    nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
    send();
}

int Http2Client::fieldCame(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name, std::size_t nameSize,
                           const std::uint8_t* value, std::size_t valueSize, std::uint8_t, void* client) {
    auto& requests = static_cast<Http2Client*>(client)->requests_;
    const auto found = requests.find(frame->hd.stream_id);
    if (found == requests.end()) {
        return 0;
    }
    Answer& answer = found->second.answer;
    const std::string_view is = textOf(name, nameSize);
    const std::string_view text = textOf(value, valueSize);
    if (is == ":status") {
        answer.status = static_cast<int>(numberIn(text));
    } else if (is == "x-source") {
        answer.source = text;
    } else if (is == "x-sources") {
        answer.sources = text;
    } else if (is == "x-name") {
        answer.name = text;
    } else if (is == "retry-after") {
        answer.retryAfter = numberIn(text);
    }
    return 0;
}

int Http2Client::streamEnded(nghttp2_session*, std::int32_t stream, std::uint32_t error, void* client) {
    auto& requests = static_cast<Http2Client*>(client)->requests_;
    if (const auto ended = requests.extract(stream)) {
        ended.mapped().answered(error == NGHTTP2_NO_ERROR ? ended.mapped().answer : Answer());
    }
    return 0;
}

void Http2Client::connected() {
    isConnected_ = true;
    send();
}

void Http2Client::readable() {
    const std::string_view unread = stream_->unread();
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(unread.data());
    const ssize_t read = nghttp2_session_mem_recv(session_.get(), bytes, unread.size());
    if (read < 0) {
        close(true);
        ended();
        return;
    }
    stream_->consume(static_cast<std::size_t>(read));
    send();
    if (nghttp2_session_want_read(session_.get()) == 0 && nghttp2_session_want_write(session_.get()) == 0) {
        close(false);
    }
}

void Http2Client::ended() {
    Connection::ended();
    for (const auto& [stream, request] : std::exchange(requests_, {})) {
        request.answered({});
    }
}

void Http2Client::send() {
    const std::uint8_t* bytes = nullptr;
    while (isConnected_ && stream_ != nullptr) {
        const ssize_t size = nghttp2_session_mem_send(session_.get(), &bytes);
        if (size <= 0) {
            return;
        }
        kernel_.write(*stream_, std::string(textOf(bytes, static_cast<std::size_t>(size))));
    }
}

}  // namespace simulate
