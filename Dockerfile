# An nginx with the module loaded: docker build -t nginx-sliding-log .
# Then mount a configuration: docker run -v ./nginx.conf:/etc/nginx/conf.d/limits.conf:ro -p 80:80 nginx-sliding-log

FROM debian:trixie-slim AS builder
# All that build.sh asks for, so that it installs nothing itself and this layer is cached while sources change.
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        g++ libhiredis-dev libpcre2-dev libssl-dev make nginx nginx-dev zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY build.sh config config.make ./
COPY lua/ lua/
COPY src/ src/
RUN ./build.sh

FROM debian:trixie-slim
# ca-certificates: for a Redis or a backend that is reached by TLS
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates libhiredis1.1.0 libstdc++6 nginx \
    && rm -rf /var/lib/apt/lists/*
COPY --from=builder /src/build/ngx_http_sliding_log_module.so /usr/lib/nginx/modules/
# Debian's nginx.conf includes modules-enabled/*.conf in its main context. Logs go where `docker logs` reads them.
# nginx -t refuses a module built for another nginx: then the builder's layer is older than this one.
RUN echo 'load_module modules/ngx_http_sliding_log_module.so;' >/etc/nginx/modules-enabled/50-mod-http-sliding-log.conf \
    && ln -sf /dev/stdout /var/log/nginx/access.log \
    && ln -sf /dev/stderr /var/log/nginx/error.log \
    && nginx -t
EXPOSE 80
# QUIT lets requests end, TERM cuts them off.
STOPSIGNAL SIGQUIT
CMD ["nginx", "-g", "daemon off;"]
