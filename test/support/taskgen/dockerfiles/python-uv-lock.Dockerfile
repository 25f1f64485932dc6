FROM debian:trixie-slim
ENV LANG="C.UTF-8" \
    PATH="/opt/deps/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    PIP_DISABLE_PIP_VERSION_CHECK="1" \
    PIP_NO_CACHE_DIR="1" \
    PIP_ROOT_USER_ACTION="ignore" \
    PYTHONDONTWRITEBYTECODE="1" \
    VIRTUAL_ENV="/opt/deps/venv"
RUN mkdir -p /usr/share/man/man1 /usr/share/man/man7 \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates git libfaketime python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /workspace/repo
RUN /usr/bin/python3 -m venv /opt/deps/tools \
 && /opt/deps/tools/bin/pip install uv==0.13.7 \
 && python3 -m venv /opt/deps/venv \
 && printf '%s\n' attrs==25.3.0 >> /opt/deps/constraints.txt \
 && SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt /opt/deps/tools/bin/uv pip install --no-cache -c /opt/deps/constraints.txt 'setuptools<81' wheel \
 && { SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt /opt/deps/tools/bin/uv pip install --no-cache -c /opt/deps/constraints.txt 'attrs>=20; python_version < '\''4'\''' 'hypothesis~=6.0' pytest-cov ruff pytest; } \
 && mkdir -p /opt/deps \
 && find /opt/deps ! -type l ! -perm -0666 -exec chmod a+rwX {} + \
 && { find . -type d \( -name __pycache__ -o -name '*.egg-info' -o -name .eggs -o -name .pytest_cache \) -prune -exec chown -hR --from=0 61000:61000 {} + || true; }
COPY repo.tar.gz /tmp/repo.tar.gz
RUN mkdir /tmp/base \
 && tar -xzf /tmp/repo.tar.gz -C /tmp/base \
 && rm /tmp/repo.tar.gz \
 && git init -q --template= -b main \
 && mkdir .git/info \
 && echo '* -text -filter -ident -working-tree-encoding' > .git/info/attributes \
 && printf '%s\n' __pycache__/ '*.egg-info/' .eggs/ .pytest_cache/ > .git/info/exclude \
 && git config core.logAllRefUpdates false \
 && git config gc.auto 0 \
 && git config --system --add safe.directory '*' \
 && (cd /tmp/base && git --git-dir=/workspace/repo/.git --work-tree=/tmp/base add -A -f .) \
 && GIT_AUTHOR_DATE='@1714564800 +0000' GIT_COMMITTER_DATE='@1714564800 +0000' git -c user.name=dev -c user.email=dev@localhost commit -q --allow-empty -m 'Initial commit' \
 && git checkout-index -q -f -a \
 && { find . -path ./.git -prune -o -type f -uid 0 -exec chown 61000:61000 {} + || true; } \
 && git update-index -q --refresh \
 && rm -rf /tmp/base
RUN SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt /opt/deps/tools/bin/uv pip install --no-cache -c /opt/deps/constraints.txt -e '.[test]' \
 && mkdir -p /opt/deps \
 && find /opt/deps ! -type l ! -perm -0666 -exec chmod a+rwX {} + \
 && { find . -type d \( -name __pycache__ -o -name '*.egg-info' -o -name .eggs -o -name .pytest_cache \) -prune -exec chown -hR --from=0 61000:61000 {} + || true; }
