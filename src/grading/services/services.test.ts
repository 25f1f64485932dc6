import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { servicesRootfs } from '../../../test/support/grading/images.ts'
import {
  openSuiteRunner,
  type SuiteRepository,
  type SuiteRunner,
  statusesOf,
} from '../../../test/support/grading/suite-runner.ts'
import { DEFAULT_LIMITS } from '../../harbor/limits.ts'
import { findRecipeFault } from '../../taskgen/environment/dockerfile.ts'
import { completeRecipe } from '../languages/recipe.ts'
import { runSuite } from '../run-suite.ts'
import { addServices, planServices, type ServiceUse } from './services.ts'

vi.setConfig({ testTimeout: 600_000, hookTimeout: 1_800_000 })

const NASTY = `p'a"s$s \\w;rd`

const USES: ServiceUse[] = [
  {
    service: 'postgres',
    image: 'pgvector/pgvector:pg16',
    port: 5432,
    hosts: ['postgres', 'db'],
    env: { POSTGRES_USER: 'app', POSTGRES_PASSWORD: NASTY, POSTGRES_DB: 'app_test' },
  },
  { service: 'postgres', image: 'postgres:16-alpine', port: 5433, hosts: [], env: {} },
  {
    service: 'mariadb',
    image: 'mysql:8',
    port: 3306,
    hosts: ['mysql'],
    env: { MYSQL_ROOT_PASSWORD: 'root', MYSQL_DATABASE: 'shop', MYSQL_USER: 'app', MYSQL_PASSWORD: NASTY },
  },
  { service: 'redis', image: 'redis:7', port: 6379, hosts: ['redis'], env: {} },
  { service: 'memcached', image: 'memcached', port: 11_211, hosts: ['memcached'], env: {} },
]

const TESTS = `
import datetime, os, socket
import psycopg2, pymysql, pytest, redis

PASSWORD = ${JSON.stringify(NASTY)}


def ask(**where):
    with psycopg2.connect(user='app', password=PASSWORD, dbname='app_test', **where) as connection:
        with connection.cursor() as cursor:
            cursor.execute('create extension vector')
            cursor.execute("create table words (word text)")
            cursor.execute("insert into words values ('B'), ('a')")
            cursor.execute("select array_agg(word order by word), now() from words")
            return cursor.fetchone()


def test_postgres_sorts_as_in_ci_and_has_the_time_of_the_tests():
    words, now = ask(host='postgres')
    assert words == ['a', 'B']
    assert abs(now - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(minutes=5)


def test_postgres_checks_the_password():
    with pytest.raises(psycopg2.OperationalError):
        psycopg2.connect(host='127.0.0.1', user='app', password='wrong', dbname='app_test')


def test_another_postgres():
    with psycopg2.connect(host='localhost', port=5433, user='postgres') as connection:
        with connection.cursor() as cursor:
            cursor.execute('select current_database()')
            assert cursor.fetchone() == ('postgres',)


@pytest.mark.parametrize('user, password', [('app', PASSWORD), ('root', 'root')])
def test_mysql(user, password):
    with pymysql.connect(host='mysql', user=user, password=password, database='shop') as connection:
        with connection.cursor() as cursor:
            cursor.execute('create table if not exists names (name varchar(20))')
            cursor.execute('select @@character_set_server')
            assert cursor.fetchone() == ('utf8mb4',)


@pytest.mark.parametrize('user', ['app', 'root', ''])
def test_mysql_checks_the_password(user):
    with pytest.raises(pymysql.err.OperationalError):
        pymysql.connect(host='127.0.0.1', user=user, password='', database='shop')


def test_redis_is_empty():
    client = redis.Redis(host='redis')
    assert client.dbsize() == 0
    client.set('left', 'behind')


def test_memcached():
    with socket.create_connection(('memcached', 11211)) as connection:
        connection.sendall(b'version\\r\\n')
        assert connection.recv(100).startswith(b'VERSION')


def test_servers_have_no_rights():
    owners = {os.stat(f'/proc/{pid}').st_uid for pid in os.listdir('/proc')
              if pid.isdigit() and open(f'/proc/{pid}/comm').read().strip() in ('postgres', 'mariadbd', 'redis-server', 'memcached')}
    assert owners == {os.getuid()} and os.getuid() != 0
`

describe.each(['bwrap', 'docker'] as const)('servers of tests in %s', (sandbox) => {
  let runner: SuiteRunner
  let repository: SuiteRepository
  beforeAll(async () => {
    runner = await openSuiteRunner(sandbox, await servicesRootfs())
    repository = await runner.repository(
      { 'test_servers.py': TESTS },
      { runner: 'pytest', services: planServices(USES) },
    )
  })
  afterAll(async () => runner?.[Symbol.asyncDispose]())

  test('are started anew for each run, with the accounts of the CI file', async () => {
    for (const _ of [1, 2]) {
      const statuses = statusesOf(await repository.run())
      expect(statuses).toEqual(Object.fromEntries(Object.keys(statuses).map((id) => [id, 'passed'])))
      expect(Object.keys(statuses)).toHaveLength(11)
    }
  })

  test('have the shifted clock of the tests', async () => {
    const plan = { runner: 'pytest', prepare: [], targets: [], timeoutSec: 300, services: planServices(USES) }
    const options = { image: repository.image, submission: null, hidden: null, seed: null, plan, daysAhead: 1111 }
    const outcome = await runSuite(
      runner.provider,
      { ...options, cpus: 2, memoryMb: 4096, folder: runner.folder },
      new AbortController().signal,
    )
    expect(new Set(Object.values(statusesOf(outcome)))).toEqual(new Set(['passed']))
  })

  test('are started by the command of the image, also as root', async () => {
    const { toolchain } = addServices(completeRecipe({ runner: 'pytest' }), USES, {})
    const install = toolchain.filter((line) => !line.startsWith('localedef'))
    const check = 'start-services && pytest -q -p no:cacheprovider -k "not rights" /workspace/repo'
    const sandbox = await runner.provider.start({
      id: randomUUID(),
      image: repository.image,
      baseFilesystem: { kind: 'image' },
      uploads: [],
      command: ['/bin/sh', '-ec', [...install, check].join('\n')],
      usesExec: false,
      user: 0,
      workdir: '/',
      env: {},
      mounts: [],
      network: null,
      ports: [],
      limits: {
        ...DEFAULT_LIMITS,
        cpus: 2,
        memoryMb: 4096,
        pids: 4096,
        diskMb: 10_240,
        outputBytes: 1e6,
        seconds: 500,
      },
      input: '',
      outputFile: join(runner.folder, 'command.log'),
    })
    const { code } = await sandbox.exited
    await sandbox.remove()
    expect([code, await readFile(join(runner.folder, 'command.log'), 'utf8')]).toEqual([
      0,
      expect.stringContaining('10 passed'),
    ])
  })

  test('report why they do not start', async () => {
    const outcome = await repository.run({ services: { names: [], script: 'echo no room >&2; exit 3', hosts: [] } })
    expect(outcome).toMatchObject({
      kind: 'broken',
      reason: 'prepare_failed',
      detail: expect.stringContaining('no room'),
    })
  })
})

test('the image has the packages, the variables and the command that starts the servers', () => {
  const plain = completeRecipe({ runner: 'pytest', env: { PATH: '/bin' } })
  const { aptPackages, env, toolchain } = addServices(plain, USES, { PATH: '/tmp', REDIS_URL: 'redis://redis' })
  expect(aptPackages).toEqual(expect.arrayContaining(['postgresql', 'postgresql-17-pgvector', 'redis-server']))
  expect(env).toEqual({ PATH: '/bin', REDIS_URL: 'redis://redis' })
  expect(toolchain.join('\n')).toContain('/usr/local/bin/start-services')
  expect(findRecipeFault({ ...plain, aptPackages, env, toolchain })).toBeUndefined()
})

test('a recipe without servers is unchanged', () => {
  const plain = completeRecipe({ runner: 'pytest' })
  expect(addServices(plain, [], { REDIS_URL: 'redis://redis' })).toBe(plain)
})
