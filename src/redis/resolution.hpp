// The resolution of one host name by nginx's resolver, which never blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ngx.hpp"
#include "redis/endpoint.hpp"

namespace sliding_log {

class ResolutionOwner {
  public:
    /// The addresses of the name, at least one.
    virtual void resolved(std::vector<Endpoint> endpoints) = 0;
    virtual void unresolved(std::string_view reason) = 0;

  protected:
    ~ResolutionOwner() = default;
};

class Resolution {
  public:
    explicit Resolution(ResolutionOwner& owner) : owner_(owner) {}
    ~Resolution() { cancel(); }
    Resolution(const Resolution&) = delete;
    Resolution& operator=(const Resolution&) = delete;

    /// Resolves the name within the timeout (ms); calls the owner once, possibly before the return. The resolver must
    /// have name servers.
    void begin(ngx_resolver_t& resolver, const std::string& name, int port, ngx_msec_t timeout);

    /// The owner is not called any more.
    void cancel();

  private:
    void finished();

    ResolutionOwner& owner_;
    ngx_resolver_ctx_t* context_ = nullptr;
    std::string name_;
    int port_ = 0;
};

}  // namespace sliding_log
