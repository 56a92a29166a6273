// A client that speaks HTTP/2: several requests at a time on a connection.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <map>
#include <memory>

#include "http_client.hpp"

namespace simulate {

class Http2Client final : public HttpClient {
  public:
    /// `most`: so many requests at a time.
    Http2Client(Kernel& kernel, Address self, Address node, std::size_t most);

    bool isFree() const override;
    void ask(std::string_view path, std::uint64_t number, Answered answered) override;

    /// Resets the stream; for some, if there is no other, closes the connection.
    void leave(std::uint64_t number) override;

  private:
    struct Request {
        std::uint64_t number;
        Answered answered;
        Answer answer;
    };

    struct FreeSession {
        void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
    };

    static int fieldCame(nghttp2_session* session, const nghttp2_frame* frame, const std::uint8_t* name,
                         std::size_t nameSize, const std::uint8_t* value, std::size_t valueSize, std::uint8_t flags,
                         void* client);
    static int streamEnded(nghttp2_session* session, std::int32_t stream, std::uint32_t error, void* client);

    void connected() override;
    void readable() override;
    void ended() override;
    void send();

    std::unique_ptr<nghttp2_session, FreeSession> session_;
    std::map<std::int32_t, Request> requests_;  // by stream
    std::size_t most_;
    bool isConnected_ = false;
};

}  // namespace simulate
