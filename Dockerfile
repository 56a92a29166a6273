# An nginx with the module, and sliding-log, from their Debian packages: docker build -t nginx-sliding-log .
# Then mount a configuration: docker run -v ./limits.conf:/etc/nginx/conf.d/limits.conf:ro -p 80:80 nginx-sliding-log

FROM debian:trixie-slim AS packages
# All that `build.sh deb` asks for, so that it installs nothing itself and this layer is cached while sources change.
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        dpkg-dev g++ libhiredis-dev libpcre2-dev libssl-dev make nginx nginx-dev zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN DEB_BUILD_OPTIONS=noautodbgsym ./build.sh deb

FROM debian:trixie-slim
# apt refuses a module for another nginx than its own: then the first stage's layer is older than this one.
# The third package is for a Redis. ca-certificates: for a Redis or a backend that is reached by TLS. Logs go where `docker logs` reads them.
RUN --mount=from=packages,source=/src/build/deb,target=/packages \
    apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates nginx \
        /packages/libnginx-mod-http-sliding-log_*.deb /packages/sliding-log_*.deb \
    && rm -rf /var/lib/apt/lists/* /etc/nginx/sites-enabled/default \
    && ln -sf /dev/stdout /var/log/nginx/access.log \
    && ln -sf /dev/stderr /var/log/nginx/error.log \
    && nginx -t
EXPOSE 80
# QUIT lets requests end, TERM cuts them off.
STOPSIGNAL SIGQUIT
CMD ["nginx", "-g", "daemon off;"]
