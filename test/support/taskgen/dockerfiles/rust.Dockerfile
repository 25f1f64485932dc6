FROM debian:trixie-slim
ENV CARGO_HOME="/opt/deps/cargo" \
    CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS="fallback" \
    CARGO_TARGET_DIR="/opt/deps/target" \
    LANG="C.UTF-8"
RUN mkdir -p /usr/share/man/man1 /usr/share/man/man7 \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates cargo gcc git libc6-dev libfaketime libssl-dev pkg-config python3 \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /workspace/repo
COPY manifests/ ./
COPY repo.tar.gz /tmp/repo.tar.gz
RUN mkdir /tmp/base \
 && tar -xzf /tmp/repo.tar.gz -C /tmp/base \
 && rm /tmp/repo.tar.gz \
 && git init -q --template= -b main \
 && mkdir .git/info \
 && echo '* -text -filter -ident -working-tree-encoding' > .git/info/attributes \
 && printf '%s\n' Cargo.lock > .git/info/exclude \
 && git config core.logAllRefUpdates false \
 && git config gc.auto 0 \
 && git config --system --add safe.directory '*' \
 && (cd /tmp/base && git --git-dir=/workspace/repo/.git --work-tree=/tmp/base add -A -f .) \
 && GIT_AUTHOR_DATE='@1714564800 +0000' GIT_COMMITTER_DATE='@1714564800 +0000' git -c user.name=dev -c user.email=dev@localhost commit -q --allow-empty -m 'Initial commit' \
 && git checkout-index -q -f -a \
 && { find . -path ./.git -prune -o -type f -uid 0 -exec chown 61000:61000 {} + || true; } \
 && git update-index -q --refresh \
 && rm -rf /tmp/base
RUN cargo fetch --locked \
 && { cargo test --no-run --offline --locked --workspace || cargo test --no-run --offline --locked; } \
 && mkdir -p /opt/deps \
 && find /opt/deps ! -type l ! -perm -0666 -exec chmod a+rwX {} +
