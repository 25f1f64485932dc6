import { expect, test } from 'vitest'
import { cpuMs } from '../../../test/support/cpu-time.ts'
import { readCiServices } from './ci-services.ts'

const find = (path: string, text: string) => readCiServices({ paths: new Set([path]), texts: new Map([[path, text]]) })
const findGithub = (text: string) => find('.github/workflows/ci.yml', text)
const findGitlab = (text: string) => find('.gitlab-ci.yml', text)

test('a job of GitHub Actions reaches its services through ports of the machine', () => {
  const found = findGithub(`
on: push
env:
  PGUSER: app
jobs:
  lint:
    steps: [{ run: make lint }]
  test:
    services:
      db:
        image: postgres:16-alpine
        env: { POSTGRES_USER: app, POSTGRES_PASSWORD: '\${{ secrets.DB_PASSWORD }}', POSTGRES_DB: app_test }
        ports: ['5433:5432']
        options: --health-cmd pg_isready
      cache:
        image: docker.io/library/redis
        ports: [6379]
    env:
      DATABASE_URL: postgres://\${{ env.PGUSER }}:\${{ secrets.DB_PASSWORD }}@localhost:\${{ job.services.db.ports[5432] }}/app_test
      REDIS_PORT: \${{ job.services.cache.ports['6379'] }}
      RUSTFLAGS: -D warnings
      DB_SCHEMA: \${{ github.ref_name }}
      LD_PRELOAD: /workspace/localhost
      OPENSSL_CONF: /workspace/repo/localhost/openssl.cnf
      PYTEST_ADDOPTS: -p evil --host localhost
      GCONV_PATH: localhost:/workspace/repo
    steps:
      - run: make test
`)
  expect(found).toEqual({
    uses: [
      {
        service: 'postgres',
        image: 'postgres:16-alpine',
        port: 5433,
        hosts: [],
        env: { POSTGRES_USER: 'app', POSTGRES_PASSWORD: 'DB_PASSWORD', POSTGRES_DB: 'app_test' },
      },
      { service: 'redis', image: 'docker.io/library/redis', port: 6379, hosts: [], env: {} },
    ],
    env: {
      PGUSER: 'app',
      DATABASE_URL: 'postgres://app:DB_PASSWORD@localhost:5433/app_test',
      REDIS_PORT: '6379',
    },
    unsupported: [],
  })
})

test('a job in a container reaches its services by name', () => {
  const { uses, env } = findGithub(`
jobs:
  test:
    container: python:3.13
    services:
      mysql: { image: 'mysql:8.4', ports: ['3307:3306'] }
    steps:
      - { run: pytest, env: { DB_HOST: mysql } }
`)
  expect(uses).toMatchObject([{ service: 'mariadb', port: 3306, hosts: ['mysql'] }])
  expect(env).toEqual({ DB_HOST: 'mysql' })
})

test('a job of GitLab reaches its services by alias and image, with the variables of its templates', () => {
  const { uses, env } = findGitlab(`
variables:
  POSTGRES_DB: app
  DATABASE_URL: postgresql://$POSTGRES_USER:\${POSTGRES_PASSWORD}@db/$POSTGRES_DB
  TOKEN_URL: redis://$CI_SERVER
services: [redis:7]
.with-database:
  variables: { POSTGRES_USER: { value: app, description: x }, POSTGRES_PASSWORD: secret }
  services:
    - { name: 'registry.example.org/proxy/postgres:$VERSION', alias: db }
    - memcached:latest
unit:
  extends: .with-database
  script: !reference [.x, script]
`)
  expect(uses).toMatchObject([
    { service: 'postgres', hosts: ['db', 'registry.example.org-proxy-postgres', expect.anything()] },
    { service: 'memcached', hosts: ['memcached'] },
  ])
  expect(uses[0]?.env).toMatchObject({ POSTGRES_USER: 'app', POSTGRES_PASSWORD: 'secret', POSTGRES_DB: 'app' })
  expect(env).toMatchObject({ DATABASE_URL: 'postgresql://app:secret@db/app' })
  expect(env).not.toHaveProperty('TOKEN_URL')
})

test('the job that runs tests decides, and of several the one whose services are available', () => {
  const found = findGithub(`
jobs:
  docs: { services: { a: { image: redis } }, steps: [{ run: make html }] }
  test-mongo: { services: { a: { image: 'mongo:7' } }, steps: [{ run: npm test }] }
  test-mysql: { services: { a: { image: mariadb } }, steps: [{ run: npm test }] }
`)
  expect(found).toMatchObject({ uses: [{ service: 'mariadb' }], unsupported: [] })
})

test.each([
  ['an unknown server', 'image: mongo:7', 'mongo:7: no such server is available here'],
  ['an image that only CI knows', `image: '\${{ matrix.image }}'`, 'matrix.image }}: no such server'],
  ['a privileged port', "image: redis\n        ports: ['80:6379']", 'redis: invalid port 80'],
  [
    'a name that is code',
    "image: postgres\n        env: { POSTGRES_DB: 'a; rm -rf /' }",
    'postgres: POSTGRES_DB is not a plain name.',
  ],
  ['a value of several lines', 'image: redis\n        env: { A: "b\\nc" }', 'redis: the value of a variable'],
])('reports %s', (_, service, reason) => {
  const { uses, unsupported } = findGithub(`jobs:\n  test:\n    services:\n      a:\n        ${service}\n`)
  expect(uses).toEqual([])
  expect(unsupported).toEqual([expect.stringContaining(reason)])
})

test('reports a service that would need the port of another', () => {
  const { uses, unsupported } = findGitlab('test: { services: [postgres, postgis/postgis], script: [make] }')
  expect(uses).toHaveLength(1)
  expect(unsupported).toEqual(['postgis/postgis: port 5432 is used twice'])
})

test('reports a CI file that cannot be read only if it declares services', () => {
  expect(findGithub('jobs: {\nservices: x').unsupported).toEqual([expect.stringContaining('.github/workflows/ci.yml')])
  expect(findGithub('jobs: {').unsupported).toEqual([])
})

test('ignores a service that is switched off, and hosts that would replace localhost', () => {
  expect(findGithub(`jobs: { test: {\nservices: { a: { image: '' } } } }`).uses).toEqual([])
  const { uses } = findGitlab(`test:\n  services: [{ name: redis, alias: 'localhost 127.0.0.1 a;b cache' }]\n`)
  expect(uses[0]?.hosts).toEqual(['cache', 'redis'])
})

test.each([
  ['expressions', `jobs: { test: {\nservices: { a: { image: postgres } }, env: { A: "${'${{ '.repeat(50_000)}" } } }`],
  ['references', `test: {\nservices: [redis], variables: { A: "${'$A'.repeat(100_000)}" } }`],
  [
    'templates',
    `${Array.from({ length: 300 }, (_, at) => `.t${at}: { extends: [${'.t0,'.repeat(10)}] }`).join('\n')}\ntest:\n  extends: .t0\n  services: [redis]\n`,
  ],
])('reads hostile %s in bounded time', async (_, text) => {
  expect(await cpuMs(() => [findGithub(text), findGitlab(text)])).toBeLessThan(2000)
})
