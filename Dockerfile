# The image of Assay. Build the package first: npm run package && docker build -t assay .
# BASE has Node 24, npm, glibc and coreutils. git is installed with apt-get if it has none.
ARG BASE=node:24-bookworm-slim

FROM ${BASE} AS files
WORKDIR /opt/assay
COPY package.json package-lock.json ./
# The base brings Node, so the optional package with Node is not needed.
RUN npm ci --omit=dev --ignore-scripts && rm -rf node_modules/node-linux-* package.json package-lock.json
# The archive contains one folder, `package`.
ADD build/assay-*.tgz /opt/
RUN cp -r /opt/package/. . && node bin/assay --version

FROM ${BASE}
RUN command -v git && command -v ssh || { apt-get update && apt-get install -y --no-install-recommends ca-certificates git openssh-client && rm -rf /var/lib/apt/lists/*; }
# The embedded PostgreSQL needs a user with a name. New volumes take the owner of the folders.
RUN groupadd --gid 10001 assay \
  && useradd --uid 10001 --gid assay --home-dir /var/lib/assay --no-create-home --shell /usr/sbin/nologin assay \
  && install -d -o assay -g assay -m 0700 /var/lib/assay /var/lib/assay-blobs \
  && ln -s /opt/assay/bin/assay /usr/local/bin/assay
COPY --from=files /opt/assay /opt/assay
ENV ASSAY_DATA=/var/lib/assay ASSAY_HOST=0.0.0.0
USER 10001:10001
WORKDIR /var/lib/assay
VOLUME /var/lib/assay
EXPOSE 4000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.ASSAY_PORT || 4000}/readyz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["assay"]
CMD ["serve"]
