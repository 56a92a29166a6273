// The least that a limiter does which asks Redis: for each request a GET, whose reply is a number, in the access phase.
// What a variant of the bench takes more than this is what it does besides. It counts nothing, denies nothing, and ends
// requests with 503 when the connection is lost; it is of no use but to be measured.
//
//   floor 127.0.0.1:6379 $arg_k;    in a location: the server, and the key

extern "C" {
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>
}

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <string>
#include <string_view>

extern "C" ngx_module_t ngx_http_floor_module;

namespace {

struct Location {
    ngx_addr_t server;
    ngx_str_t address;
    ngx_http_complex_value_t* key;
};

struct Asked {
    ngx_http_request_t* request;  // nullptr: its client is gone
    bool isAnswered;
    bool isLost;
};

/// The connection of this worker. Requests of one turn of the event loop are sent together.
struct Connection {
    ngx_peer_connection_t peer;
    ngx_event_t flush;
    bool isOpen;
    std::string toSend;
    std::string received;
    std::deque<Asked*> waiting;
};

Connection* gConnection = nullptr;

void resume(Asked& asked, bool isLost) {
    ngx_http_request_t* request = asked.request;
    if (request == nullptr) {
        delete &asked;
        return;
    }
    asked.isAnswered = true;
    asked.isLost = isLost;
    ngx_connection_t* client = request->connection;
    request->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(request);
    ngx_http_run_posted_requests(client);
}

void lose(Connection& self) {
    ngx_close_connection(self.peer.connection);
    self.isOpen = false;
    self.toSend.clear();
    self.received.clear();
    std::deque<Asked*> lost;
    lost.swap(self.waiting);
    for (Asked* asked : lost) {
        resume(*asked, true);
    }
}

/// The length of the first reply in the text, `$-1` or `$2 12`; 0: it is not there yet.
std::size_t lengthOfReply(std::string_view text) {
    const std::size_t line = text.find("\r\n");
    if (line == std::string_view::npos) {
        return 0;
    }
    const int length = std::atoi(text.data() + 1);
    const std::size_t whole = line + 2 + (length < 0 ? 0 : static_cast<std::size_t>(length) + 2);
    return whole <= text.size() ? whole : 0;
}

void readable(ngx_event_t* event) {
    Connection& self = *gConnection;
    auto* connection = static_cast<ngx_connection_t*>(event->data);
    u_char buffer[16384];
    ssize_t size = 0;
    do {
        size = connection->recv(connection, buffer, sizeof buffer);
        self.received.append(reinterpret_cast<const char*>(buffer),
                             static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    } while (size > 0 && event->ready != 0);
    std::size_t read = 0;
    while (const std::size_t length = lengthOfReply(std::string_view(self.received).substr(read))) {
        read += length;
        Asked& asked = *self.waiting.front();
        self.waiting.pop_front();
        resume(asked, false);
    }
    self.received.erase(0, read);
    if (size <= 0 && size != NGX_AGAIN) {
        lose(self);
    }
}

void send(ngx_event_t*) {
    Connection& self = *gConnection;
    ngx_connection_t* connection = self.peer.connection;
    if (!self.isOpen || self.toSend.empty()) {
        return;
    }
    const ssize_t sent =
        connection->send(connection, reinterpret_cast<u_char*>(self.toSend.data()), self.toSend.size());
    if (sent > 0) {
        self.toSend.erase(0, static_cast<std::size_t>(sent));
    } else if (sent != NGX_AGAIN) {
        lose(self);
    }
}

bool open(Connection& self, Location& location, ngx_log_t* log) {
    self.peer = {};
    self.peer.sockaddr = location.server.sockaddr;
    self.peer.socklen = location.server.socklen;
    self.peer.name = &location.address;
    self.peer.get = ngx_event_get_peer;
    self.peer.log = log;
    const ngx_int_t opened = ngx_event_connect_peer(&self.peer);
    self.isOpen = opened == NGX_OK || opened == NGX_AGAIN;
    if (self.isOpen) {
        self.peer.connection->read->handler = readable;
        self.peer.connection->write->handler = send;
    }
    return self.isOpen;
}

void gone(void* data) {
    auto* asked = static_cast<Asked*>(data);
    asked->request = nullptr;
    if (asked->isAnswered) {
        delete asked;
    }
}

ngx_int_t ask(ngx_http_request_t* request, Location& location) {
    Connection& self = *gConnection;
    ngx_str_t key;
    ngx_http_cleanup_t* cleanup = ngx_http_cleanup_add(request, 0);
    if (cleanup == nullptr || ngx_http_complex_value(request, location.key, &key) != NGX_OK ||
        (!self.isOpen && !open(self, location, ngx_cycle->log))) {
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    }
    auto* asked = new Asked{request, false, false};
    cleanup->handler = gone;
    cleanup->data = asked;
    ngx_http_set_ctx(request, asked, ngx_http_floor_module);
    self.waiting.push_back(asked);
    self.toSend.append("*2\r\n$3\r\nGET\r\n$").append(std::to_string(key.len)).append("\r\n");
    self.toSend.append(reinterpret_cast<const char*>(key.data), key.len).append("\r\n");
    ngx_post_event(&self.flush, &ngx_posted_events);
    return NGX_AGAIN;
}

ngx_int_t access(ngx_http_request_t* request) {
    auto* location = static_cast<Location*>(ngx_http_get_module_loc_conf(request, ngx_http_floor_module));
    if (location->key == nullptr) {
        return NGX_DECLINED;
    }
    const auto* asked = static_cast<Asked*>(ngx_http_get_module_ctx(request, ngx_http_floor_module));
    if (asked == nullptr) {
        return ask(request, *location);
    }
    if (!asked->isAnswered) {
        return NGX_AGAIN;
    }
    return asked->isLost ? NGX_HTTP_SERVICE_UNAVAILABLE : NGX_DECLINED;
}

void* createLocation(ngx_conf_t* cf) {
    return ngx_pcalloc(cf->pool, sizeof(Location));
}

char* setFloor(ngx_conf_t* cf, ngx_command_t*, void* conf) {
    auto& location = *static_cast<Location*>(conf);
    auto* values = static_cast<ngx_str_t*>(cf->args->elts);
    location.address = values[1];
    location.key = static_cast<ngx_http_complex_value_t*>(ngx_pcalloc(cf->pool, sizeof(ngx_http_complex_value_t)));
    ngx_http_compile_complex_value_t compile = {};
    compile.cf = cf;
    compile.value = &values[2];
    compile.complex_value = location.key;
    const bool isRead = ngx_parse_addr_port(cf->pool, &location.server, values[1].data, values[1].len) == NGX_OK &&
                        location.key != nullptr && ngx_http_compile_complex_value(&compile) == NGX_OK;
    return isRead ? NGX_CONF_OK : static_cast<char*>(NGX_CONF_ERROR);
}

ngx_int_t addHandler(ngx_conf_t* cf) {
    auto* core = static_cast<ngx_http_core_main_conf_t*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module));
    auto* handler = static_cast<ngx_http_handler_pt*>(ngx_array_push(&core->phases[NGX_HTTP_ACCESS_PHASE].handlers));
    if (handler == nullptr) {
        return NGX_ERROR;
    }
    *handler = access;
    return NGX_OK;
}

ngx_int_t beginProcess(ngx_cycle_t* cycle) {
    gConnection = new Connection();
    gConnection->flush.handler = send;
    gConnection->flush.log = cycle->log;
    return NGX_OK;
}

ngx_command_t gCommands[] = {
    {ngx_string("floor"), NGX_HTTP_LOC_CONF | NGX_CONF_TAKE2, setFloor, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    ngx_null_command};

ngx_http_module_t gContext = {nullptr, addHandler, nullptr, nullptr, nullptr, nullptr, createLocation, nullptr};

}  // namespace

extern "C" {
ngx_module_t ngx_http_floor_module = {NGX_MODULE_V1, &gContext, gCommands,    NGX_HTTP_MODULE,
                                      nullptr,       nullptr,   beginProcess, nullptr,
                                      nullptr,       nullptr,   nullptr,      NGX_MODULE_V1_PADDING};
ngx_module_t* ngx_modules[] = {&ngx_http_floor_module, nullptr};
char gName[] = "ngx_http_floor_module";
char* ngx_module_names[] = {gName, nullptr};
char* ngx_module_order[] = {nullptr};
}
