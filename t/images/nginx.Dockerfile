# In place of the official nginx image: the nginx of Debian's sources, with nginx.org's arguments, in the folders of that
# image and with its user. The archive of the sources is in /download.
FROM docker.io/library/debian:trixie-slim
RUN apt-get update && apt-get install -y --no-install-recommends dpkg-dev gcc libc6-dev make libpcre2-dev libssl-dev zlib1g-dev
RUN sed 's/^deb /deb-src /' /etc/apt/sources.list >/etc/apt/sources.list.d/sources.list \
    && apt-get update \
    && mkdir /download && cd /download && apt-get source -qq --download-only --tar-only nginx \
    && for file in nginx_*.orig.tar.gz; do version=${file#nginx_}; mv "$file" "nginx-${version%.orig.tar.gz}.tar.gz"; done
RUN mkdir /usr/src/built && tar -xz --strip-components=1 -C /usr/src/built -f /download/nginx-*.tar.gz && cd /usr/src/built \
    && ./configure --prefix=/etc/nginx --sbin-path=/usr/sbin/nginx --modules-path=/usr/lib/nginx/modules \
        --conf-path=/etc/nginx/nginx.conf --error-log-path=/var/log/nginx/error.log \
        --http-log-path=/var/log/nginx/access.log --pid-path=/var/run/nginx.pid --lock-path=/var/run/nginx.lock \
        --http-client-body-temp-path=/var/cache/nginx/client_temp --http-proxy-temp-path=/var/cache/nginx/proxy_temp \
        --http-fastcgi-temp-path=/var/cache/nginx/fastcgi_temp --http-uwsgi-temp-path=/var/cache/nginx/uwsgi_temp \
        --http-scgi-temp-path=/var/cache/nginx/scgi_temp --user=nginx --group=nginx --with-compat --with-file-aio \
        --with-threads --with-http_addition_module --with-http_auth_request_module --with-http_dav_module \
        --with-http_flv_module --with-http_gunzip_module --with-http_gzip_static_module --with-http_mp4_module \
        --with-http_random_index_module --with-http_realip_module --with-http_secure_link_module --with-http_slice_module \
        --with-http_ssl_module --with-http_stub_status_module --with-http_sub_module --with-http_v2_module \
        --with-http_v3_module --with-mail --with-mail_ssl_module --with-stream --with-stream_realip_module \
        --with-stream_ssl_module --with-stream_ssl_preread_module \
        --with-cc-opt='-g -O2 -fstack-protector-strong -Wformat -Werror=format-security -fPIC' \
        --with-ld-opt='-Wl,-z,relro -Wl,-z,now -Wl,--as-needed -pie' \
    && make -s -j2 && make -s install && rm -r /usr/src/built
RUN useradd --system --uid 101 nginx && mkdir -p /var/cache/nginx /etc/nginx/conf.d /usr/lib/nginx/modules /usr/share/nginx \
    && mv /etc/nginx/html /usr/share/nginx/ \
    && ln -s /usr/lib/nginx/modules /etc/nginx/modules && chown -R nginx /var/cache/nginx /var/log/nginx \
    && ln -sf /dev/stdout /var/log/nginx/access.log && ln -sf /dev/stderr /var/log/nginx/error.log \
    && echo 'events { } http { access_log off; include conf.d/*.conf; }' >/etc/nginx/nginx.conf
STOPSIGNAL SIGQUIT
CMD ["nginx", "-g", "daemon off;"]
