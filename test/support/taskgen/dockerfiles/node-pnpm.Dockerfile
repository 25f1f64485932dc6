FROM debian:trixie-slim
ENV LANG="C.UTF-8" \
    NODE_EXTRA_CA_CERTS="/etc/ssl/certs/ca-certificates.crt" \
    YARN_ENABLE_GLOBAL_CACHE="false" \
    YARN_NODE_LINKER="node-modules" \
    npm_config_audit="false" \
    npm_config_cache="/opt/deps/npm" \
    npm_config_fund="false" \
    npm_config_update_notifier="false"
RUN mkdir -p /usr/share/man/man1 /usr/share/man/man7 \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates git libfaketime nodejs npm python3 \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /workspace/repo
COPY manifests/ ./
RUN npm install -g pnpm@9.12.0 \
 && pnpm install --no-frozen-lockfile --ignore-scripts \
 && mkdir -p /opt/deps \
 && find /opt/deps ! -type l ! -perm -0666 -exec chmod a+rwX {} + \
 && { find . -type d \( -name node_modules \) -prune -exec chown -hR --from=0 61000:61000 {} + || true; }
COPY repo.tar.gz /tmp/repo.tar.gz
RUN mkdir /tmp/base \
 && tar -xzf /tmp/repo.tar.gz -C /tmp/base \
 && rm /tmp/repo.tar.gz \
 && git init -q --template= -b main \
 && mkdir .git/info \
 && echo '* -text -filter -ident -working-tree-encoding' > .git/info/attributes \
 && printf '%s\n' node_modules/ > .git/info/exclude \
 && git config core.logAllRefUpdates false \
 && git config gc.auto 0 \
 && git config --system --add safe.directory '*' \
 && (cd /tmp/base && git --git-dir=/workspace/repo/.git --work-tree=/tmp/base add -A -f .) \
 && GIT_AUTHOR_DATE='@1714564800 +0000' GIT_COMMITTER_DATE='@1714564800 +0000' git -c user.name=dev -c user.email=dev@localhost commit -q --allow-empty -m 'Initial commit' \
 && git checkout-index -q -f -a \
 && { find . -path ./.git -prune -o -type f -uid 0 -exec chown 61000:61000 {} + || true; } \
 && git update-index -q --refresh \
 && rm -rf /tmp/base
RUN pnpm rebuild \
 && mkdir -p /opt/deps \
 && find /opt/deps ! -type l ! -perm -0666 -exec chmod a+rwX {} + \
 && { find . -type d \( -name node_modules \) -prune -exec chown -hR --from=0 61000:61000 {} + || true; }
