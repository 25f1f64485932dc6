import { describe, expect, test } from 'vitest'
import { readFindings, summarizeFindings } from '../../test/support/harbor/small-task.ts'
import { orderServices, parseCompose } from './compose.ts'
import { splitShellWords } from './compose-values.ts'
import { createReport } from './report.ts'

function read(text: string) {
  const report = createReport()
  const compose = parseCompose(text, 'environment', report)
  report.throwIfRefused()
  return { compose: compose ?? { services: [], volumes: [] }, warnings: report.warnings }
}

const refusalsOf = async (text: string) =>
  summarizeFindings(await readFindings(Promise.resolve().then(() => read(text)))).map((finding) =>
    finding.replace('environment/docker-compose.yaml', '~'),
  )

const TEXT = `
x-defaults: &defaults
  environment: {MODE: test}
  init: true
services:
  main:
    <<: *defaults
    build: {context: "\${CONTEXT_DIR}", args: [VERSION=1]}
    image: \${MAIN_IMAGE_NAME}
    command: ["sh", "-c", "sleep infinity"]
    network_mode: \${NETWORK_MODE:-bridge}
    depends_on: {db: {condition: service_healthy}}
    volumes:
      - \${HOST_VERIFIER_LOGS_PATH}:\${ENV_VERIFIER_LOGS_PATH}
      - data:/data
    deploy: {resources: {limits: {cpus: "\${CPUS}", memory: "\${MEMORY}"}}}
  db:
    build: ./db
    container_name: store
    command: serve --name "my db" $$HOME
    environment:
      - LEVEL=1.0
      - URL=http://\${HOST:-localhost}:$PORT/
      - FROM_OUTSIDE
    healthcheck: {test: "pg_isready", interval: 1m30s, retries: 5}
    mem_limit: 256m
    cpus: 0.5
    shm_size: 64mb
    tmpfs: /run
    ports: ["5432:5432"]
    volumes:
      - ./seed:/seed:ro
      - {type: tmpfs, target: /tmp, tmpfs: {size: 10m}}
volumes:
  data:
`

test('reads a compose file with a sidecar', () => {
  const { compose, warnings } = read(TEXT)
  const [main, db] = compose.services

  expect(compose.volumes).toEqual(['data'])
  expect(main).toMatchObject({
    name: 'main',
    image: [{ variable: 'MAIN_IMAGE_NAME', fallback: '' }],
    build: { context: 'environment', dockerfile: 'Dockerfile', args: [{ name: 'VERSION', value: ['1'] }] },
    command: [['sh'], ['-c'], ['sleep infinity']],
    env: [{ name: 'MODE', value: ['test'] }],
    init: true,
    dependsOn: [{ service: 'db', condition: 'healthy' }],
    mounts: [{ kind: 'volume', name: 'data', target: '/data', readOnly: false }],
    resources: { cpus: null, memoryMb: null, pids: null, shmMb: null },
  })
  expect(db).toMatchObject({
    image: null,
    build: { context: 'environment/db', dockerfile: 'Dockerfile', target: null, args: [] },
    command: [['serve'], ['--name'], ['my db'], ['$HOME']],
    env: [
      { name: 'LEVEL', value: ['1.0'] },
      {
        name: 'URL',
        value: ['http://', { variable: 'HOST', fallback: 'localhost' }, ':', { variable: 'PORT', fallback: '' }, '/'],
      },
      { name: 'FROM_OUTSIDE', value: [{ variable: 'FROM_OUTSIDE', fallback: '' }] },
    ],
    aliases: ['store'],
    healthcheck: { kind: 'shell', test: ['pg_isready'], intervalSec: 90, timeoutSec: 30, retries: 5 },
    mounts: [
      { kind: 'bind', source: 'environment/seed', target: '/seed', readOnly: true },
      { kind: 'tmpfs', target: '/tmp', sizeMb: 10 },
      { kind: 'tmpfs', target: '/run', sizeMb: null },
    ],
    resources: { cpus: 0.5, memoryMb: 256, shmMb: 64 },
    network: 'default',
  })
  expect(summarizeFindings(warnings)).toEqual([
    'ignored_key environment/docker-compose.yaml.services.main.volumes.0',
    'ignored_key environment/docker-compose.yaml.services.db.ports',
  ])
  expect(orderServices(compose.services)?.map(({ name }) => name)).toEqual(['db', 'main'])
})

describe('refuses unsupported keys by name', () => {
  const KEYS = [
    'privileged: true',
    'cap_add: [SYS_ADMIN]',
    'devices: [/dev/kvm]',
    'pid: host',
    'ipc: host',
    'userns_mode: host',
    'security_opt: [seccomp=unconfined]',
    'networks: [other]',
    'extends: {service: x}',
    'secrets: [s]',
    'configs: [c]',
    'env_file: .env',
    'extra_hosts: ["a:1.2.3.4"]',
    'sysctls: {a: 1}',
    'ulimits: {nofile: 1}',
    'cgroup_parent: /',
    'runtime: runc',
    'volumes_from: [x]',
    '__proto__: {privileged: true}',
  ]

  test.each(KEYS)('%s', async (line) => {
    expect(await refusalsOf(`services:\n  main:\n    ${line}\n`)).toEqual([
      `unsupported_key ~.services.main.${line.split(':')[0]}`,
    ])
  })

  test.each([
    ['include: [other.yaml]', 'unsupported_key ~.include'],
    ['services: {main: {network_mode: host}}', 'unsupported_key ~.services.main.network_mode'],
    ['services: {main: {network_mode: "service:db"}}', 'unsupported_key ~.services.main.network_mode'],
    ['services: {main: {volumes: ["/:/host"]}}', 'outside ~.services.main.volumes.0'],
    ['services: {main: {volumes: ["/var/run/docker.sock:/s"]}}', 'outside ~.services.main.volumes.0'],
    ['services: {main: {volumes: ["../tests:/t"]}}', 'outside ~.services.main.volumes.0'],
    ['services: {main: {volumes: ["./a/../../tests:/t"]}}', 'outside ~.services.main.volumes.0'],
    ['services: {main: {volumes: ["~/.ssh:/s"]}}', 'outside ~.services.main.volumes.0'],
    ['services: {main: {volumes: ["$HOME:/h"]}}', 'variable ~.services.main.volumes.0'],
    ['services: {main: {volumes: ["./a:b"]}}', 'invalid_value ~.services.main.volumes.0'],
    ['services: {main: {volumes: [{type: bind, source: /etc, target: /e}]}}', 'outside ~.services.main.volumes.0'],
    ['services: {main: {volumes: ["data:/d"]}}', 'unknown_volume ~.services.main.volumes.data'],
    ['services: {main: {build: /etc}}', 'outside ~.services.main.build'],
    ['services: {main: {build: {context: ..}}}', 'outside ~.services.main.build.context'],
    ['services: {main: {build: {dockerfile: ../../x}}}', 'outside ~.services.main.build'],
    ['services: {main: {build: {secrets: [a]}}}', 'unsupported_key ~.services.main.build.secrets'],
    [`services: {main: {environment: {A: "\${B:?no}"}}}`, 'unsupported_variable ~.services.main.environment.A'],
    ['services: {main: {depends_on: [nobody]}}', 'unknown_service ~.services.main.depends_on.nobody'],
    ['services: {main: {depends_on: [main]}}', 'circle ~.services'],
    ['services: {db: {init: true}}', 'required ~.services.db'],
    ['services: {"a b": {image: x}}', 'invalid_value ~.services.a b'],
    ['services: {main: {command: "a \'b"}}', 'invalid_value ~.services.main.command'],
    ['services: {main: {init: maybe}}', 'wrong_type ~.services.main.init'],
    ['services: {main: {mem_limit: lots}}', 'invalid_value ~.services.main.mem_limit'],
    ['services: {main: {healthcheck: {test: [a]}}}', 'invalid_value ~.services.main.healthcheck.test'],
    [
      'services: {main: {healthcheck: {test: a, interval: soon}}}',
      'invalid_value ~.services.main.healthcheck.interval',
    ],
    ['services: {main: {deploy: {replicas: 2}}}', 'unsupported_key ~.services.main.deploy.replicas'],
    ['volumes: {data: {driver: local}}', 'unsupported_key ~.volumes.data.driver'],
    ['services: {main: {init: !reset null}}', 'unsupported_tag ~'],
    ['services: {}\nservices: {}', 'duplicate ~'],
    ['- a', 'wrong_type ~'],
    ['a: b: c', 'yaml_syntax ~'],
    ['a: 1\n---\nb: 2', 'yaml_syntax ~'],
    ['a: *nobody', 'yaml_syntax ~'],
  ])('%s', async (text, finding) => {
    expect(await refusalsOf(text)).toEqual([finding])
  })
})

test.each([
  ['a b', ['a', 'b']],
  ['  a\t"b c"d \'e f\' g\\ h ""', ['a', 'b cd', 'e f', 'g h', '']],
  ['"a\\"b" \'\\\'', ['a"b', '\\']],
  ['', []],
  ['"a', undefined],
  ['a\\', undefined],
])('splits %j into shell words', (text, words) => {
  expect(splitShellWords(text)).toEqual(words)
})
