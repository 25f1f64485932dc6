import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { ROOT } from '../../scripts/files.ts'
import { newKey } from '../../src/workspaces/key.ts'
import { equippedRootfs } from '../support/base-image.ts'
import { findCompose } from '../support/compose-command.ts'
import { buildAssayImage, docker, waitUntilHealthy } from '../support/docker-command.ts'
import { baseImages, type Dockerd, importImage, startDockerd } from '../support/dockerd.ts'
import { importNodeImage } from '../support/node-image.ts'
import { hasPart, isLongRun } from '../support/parts.ts'
import { publishSample } from '../support/publish-sample.ts'

const run = promisify(execFile)

type ComposeFile = { services: Record<string, Record<string, unknown>> }

test('compose.yaml: every process of Assay has a read-only root file system, no capabilities and no more privileges', () => {
  const { services }: ComposeFile = parse(readFileSync(join(ROOT, 'compose.yaml'), 'utf8'), { merge: true })
  const ours = Object.entries(services).filter(([name]) => !['postgres', 'owner'].includes(name))
  expect(ours.map(([name]) => name)).toEqual(['api', 'gateway', 'worker-1', 'worker-2'])
  for (const [, service] of ours) {
    expect(service).toMatchObject({ read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] })
    expect(service).not.toHaveProperty('user')
    expect(service).not.toHaveProperty('privileged')
  }
  expect(services.postgres).not.toHaveProperty('ports')
  expect(services.gateway).not.toHaveProperty('ports')
})

test('.env.example names every setting that compose.yaml requires', () => {
  const required = readFileSync(join(ROOT, 'compose.yaml'), 'utf8').matchAll(/\$\{(\w+):\?/g)
  const example = readFileSync(join(ROOT, '.env.example'), 'utf8')
  for (const [, name = ''] of required) expect(example).toMatch(new RegExp(`^${name}=`, 'm'))
})

/** Behaves like the image `postgres` for one database. */
const POSTGRES_START = `#!/bin/sh
set -e
export PATH="$(echo /usr/lib/postgresql/*/bin):$PATH"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  echo "$POSTGRES_PASSWORD" > /tmp/password
  initdb --username "$POSTGRES_USER" --pwfile /tmp/password --auth-host scram-sha-256 --auth-local trust --encoding UTF8 --locale C.UTF-8
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  echo "create database $POSTGRES_DB" | postgres --single -D "$PGDATA" postgres
fi
exec postgres -c listen_addresses='*' -c unix_socket_directories=/tmp
`
const POSTGRES_FILE = `FROM postgresql-base
COPY start /usr/local/bin/start
RUN chmod 755 /usr/local/bin/start && ln -s /usr/lib/postgresql/*/bin/pg_isready /usr/local/bin/pg_isready && install -d -o postgres -g postgres -m 0700 /var/lib/postgresql/data
ENV PGDATA=/var/lib/postgresql/data
USER postgres
ENTRYPOINT ["/usr/local/bin/start"]
`

/** A scripted mock model inside the network of the services. */
const OVERRIDE = `services:
  provider:
    image: assay
    init: true
    entrypoint: [node, /opt/assay/samples/provider/serve.js, --host, 0.0.0.0, --port, '8080', --script, /opt/assay/samples/provider/quick.json]
    healthcheck: { disable: true }
  api: { environment: { ASSAY_GATEWAY_UPSTREAM_CUSTOM_SCRIPTED: 'http://provider:8080/v1' } }
  gateway: { environment: { ASSAY_GATEWAY_UPSTREAM_CUSTOM_SCRIPTED: 'http://provider:8080/v1' } }
  worker-1: { volumes: ['SOCKET:/var/run/docker.sock'] }
  worker-2: { volumes: ['SOCKET:/var/run/docker.sock'] }
`

describe.runIf(isLongRun() && hasPart('docker'))('docker compose up', () => {
  const folder = mkdtempSync(join(tmpdir(), 'assay-compose-'))
  const key = newKey()
  let dockerd: Dockerd
  let program: string
  let url: string

  const compose = (...args: string[]) =>
    run(
      program,
      [
        '--project-directory',
        ROOT,
        '--env-file',
        join(folder, 'env'),
        '--file',
        'compose.yaml',
        '--file',
        join(folder, 'override.yaml'),
        ...args,
      ],
      {
        cwd: ROOT,
        env: { PATH: process.env.PATH, DOCKER_HOST: `unix://${dockerd.socket}` },
        maxBuffer: 64e6,
      },
    )
  beforeAll(async () => {
    program = await findCompose()
    dockerd = await startDockerd({ images: await baseImages() })
    await importNodeImage(dockerd)
    await importPostgres(dockerd, folder)
    await buildAssayImage(dockerd)
    const settings = {
      POSTGRES_IMAGE: 'postgresql-test',
      POSTGRES_PASSWORD: randomBytes(16).toString('hex'),
      ASSAY_SECRET_KEY: randomBytes(32).toString('hex'),
      ASSAY_BOOTSTRAP_KEY: key,
      DOCKER_GID: '0',
      WORKER_DATA: join(folder, 'workers'),
      ASSAY_LISTEN: '127.0.0.1:0',
    }
    writeFileSync(
      join(folder, 'env'),
      Object.entries(settings)
        .map(([name, value]) => `${name}=${value}\n`)
        .join(''),
    )
    writeFileSync(join(folder, 'override.yaml'), OVERRIDE.replaceAll('SOCKET', dockerd.socket))
    await compose('up', '--detach', '--no-build')
    const { stdout } = await compose('port', 'api', '4000')
    url = `http://${stdout.trim()}`
  }, 1_800_000)

  afterAll(async () => {
    await compose('down', '--volumes', '--timeout', '30')
    await dockerd[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true, force: true })
  }, 300_000)

  test('starts every process in order', async () => {
    for (const service of ['api', 'gateway', 'worker-1', 'worker-2'])
      await waitUntilHealthy(dockerd, `assay-${service}-1`)
    const running = await docker(dockerd, 'ps', '--format', '{{.Names}}')
    expect(
      running
        .split('\n')
        .filter((name) => name.startsWith('assay-'))
        .sort(),
    ).toEqual(['api', 'gateway', 'postgres', 'provider', 'worker-1', 'worker-2'].map((name) => `assay-${name}-1`))
    expect((await fetch(`${url}/readyz`)).status).toBe(200)
  })

  test('leads from a connected repository to a public page', async () => {
    expect(await publishSample({ url, key, sandbox: 'docker', task: 'greet-in-bash' })).toContain('Scripted')
  })

  test('stops every process without a kill', async () => {
    await compose('stop', '--timeout', '60')
    const names = ['api', 'gateway', 'worker-1', 'worker-2'].map((name) => `assay-${name}-1`)
    const codes = await docker(dockerd, 'inspect', '--format', '{{.State.ExitCode}}', ...names)
    expect(codes.split('\n')).toEqual(['0', '0', '0', '0'])
  })
})

async function importPostgres(dockerd: Dockerd, folder: string): Promise<void> {
  const install = 'apt-get update && apt-get install -y --no-install-recommends postgresql'
  await importImage(dockerd, 'postgresql-base', await equippedRootfs('postgresql', install, 'bookworm'))
  const context = mkdtempSync(join(folder, 'postgres-'))
  writeFileSync(join(context, 'Dockerfile'), POSTGRES_FILE)
  writeFileSync(join(context, 'start'), POSTGRES_START)
  await docker(dockerd, 'build', '--network', 'none', '--tag', 'postgresql-test', context)
}
