FROM debian:trixie-slim
ENV GOCACHE="/opt/deps/go-build" \
    GOFLAGS="-buildvcs=false" \
    GOPATH="/opt/deps/go" \
    GOTOOLCHAIN="auto" \
    LANG="C.UTF-8"
RUN mkdir -p /usr/share/man/man1 /usr/share/man/man7 \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates gcc git golang-go libc6-dev libfaketime python3 \
 && rm -rf /var/lib/apt/lists/*
RUN { mkdir /tmp/std && cd /tmp/std && printf '%s\n' 'module std.local' > go.mod && go build std && cd / && rm -r /tmp/std; } \
 && mkdir -p /opt/deps \
 && find /opt/deps ! -type l ! -perm -0666 -exec chmod a+rwX {} +
WORKDIR /workspace/repo
COPY manifests/ ./
RUN go mod download \
 && mkdir -p /opt/deps \
 && find /opt/deps ! -type l ! -perm -0666 -exec chmod a+rwX {} +
COPY repo.tar.gz /tmp/repo.tar.gz
RUN mkdir /tmp/base \
 && tar -xzf /tmp/repo.tar.gz -C /tmp/base \
 && rm /tmp/repo.tar.gz \
 && git init -q --template= -b main \
 && mkdir .git/info \
 && echo '* -text -filter -ident -working-tree-encoding' > .git/info/attributes \
 && printf '%s\n' '' > .git/info/exclude \
 && git config core.logAllRefUpdates false \
 && git config gc.auto 0 \
 && git config --system --add safe.directory '*' \
 && (cd /tmp/base && git --git-dir=/workspace/repo/.git --work-tree=/tmp/base add -A -f .) \
 && GIT_AUTHOR_DATE='@1714564800 +0000' GIT_COMMITTER_DATE='@1714564800 +0000' git -c user.name=dev -c user.email=dev@localhost commit -q --allow-empty -m 'Initial commit' \
 && git checkout-index -q -f -a \
 && { find . -path ./.git -prune -o -type f -uid 0 -exec chown 61000:61000 {} + || true; } \
 && git update-index -q --refresh \
 && rm -rf /tmp/base
RUN { if [ -f go.work ]; then set -- $(go list -m -f '{{.Dir}}/...'); else set -- ./...; fi; go test -count=1 -run '^$' "$@" > /dev/null || go build "$@"; } \
 && mkdir -p /opt/deps \
 && find /opt/deps ! -type l ! -perm -0666 -exec chmod a+rwX {} +
