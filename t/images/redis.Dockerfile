# In place of Redis's official image: as there, the default user needs no password from other containers.
FROM docker.io/library/debian:trixie-slim
RUN apt-get update && apt-get install -y --no-install-recommends redis-server
RUN printf '#!/bin/sh\nexec "$@" --protected-mode no\n' >/entrypoint && chmod 755 /entrypoint
ENTRYPOINT ["/entrypoint"]
CMD ["redis-server"]
WORKDIR /data
