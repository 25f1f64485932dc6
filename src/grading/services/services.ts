import { type EnvRecipe, quoteWord } from '../languages/recipe.ts'
import type { ServicePlan } from '../suite.ts'

/** A server that a CI file declares, with everything needed to start it in the sandbox of the tests. */
export type ServiceUse = {
  /** Id of an entry of `services`. */
  service: string
  /** Image that the CI file names. */
  image: string
  port: number
  /** Names besides localhost under which the tests reach it. */
  hosts: string[]
  /** Variables of the server's container, such as `POSTGRES_PASSWORD`. */
  env: Record<string, string>
}

/** A server program that can be installed from Debian packages and started by an unprivileged user. */
type Service = {
  id: string
  name: string
  /** Matches an image name without registry, tag and digest. */
  image: RegExp
  port: number
  listPackages(base: string, image: string): string[]
  /** Shell lines for the image, run as root after the packages are installed. */
  toolchain: readonly string[]
  /** Returns the first fault of the variables, or undefined if the server can be started with them. */
  findFault(env: Record<string, string>): string | undefined
  /**
   * Returns shell lines that start the server in the background and return when it accepts connections. They use the
   * variables and functions of `renderScript`. `data` is a path for its files that does not exist yet.
   */
  start(use: ServiceUse, data: string): string[]
}

/** Command of the image that starts the servers, for agents and people. The grader brings its own copy. */
export const START_COMMAND = 'start-services'

/** Adds the servers to an image: their packages, the variables of the CI file, and the command that starts them. */
export function addServices(
  recipe: EnvRecipe,
  uses: readonly ServiceUse[],
  env: Readonly<Record<string, string>>,
): EnvRecipe {
  if (uses.length === 0) return recipe
  const rows = uses.map((use) => ({ use, service: requireService(use) }))
  const path = `/usr/local/bin/${START_COMMAND}`
  const command = renderCommand(planServices(uses))
  return {
    ...recipe,
    aptPackages: [
      ...recipe.aptPackages,
      ...rows.flatMap(({ use, service }) => service.listPackages(recipe.base, use.image)),
    ],
    env: { ...env, ...recipe.env },
    toolchain: [
      ...new Set(rows.flatMap(({ service }) => service.toolchain)),
      `printf '%s\\n' ${command.split('\n').map(quoteWord).join(' ')} > ${path}`,
      `chmod 755 ${path}`,
      ...recipe.toolchain,
    ],
  }
}

/** Returns the data with which the grader starts the servers before the tests. */
export const planServices = (uses: readonly ServiceUse[]): ServicePlan => ({
  names: uses.map((use) => `${requireService(use).name} on port ${use.port}`),
  script: renderScript(uses),
  hosts: [...new Set(uses.flatMap(({ hosts }) => hosts))].sort(),
})

function requireService({ service: id }: ServiceUse): Service {
  const service = services.find((each) => each.id === id)
  if (service === undefined) throw new Error(`Unknown service ${id}`)
  return service
}

/** Seconds that a server may take to accept connections, on a busy host too. */
const START_SECONDS = 120

const WAIT_PROGRAM = `import socket, sys, time
end = time.monotonic() + ${START_SECONDS}
while True:
    try:
        socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1).close()
        break
    except OSError:
        if time.monotonic() > end:
            sys.exit("The port does not answer.")
        time.sleep(0.05)`

/** Renders the script that starts the servers as an unprivileged user. Their files are in a new temporary folder. */
const renderScript = (uses: readonly ServiceUse[]): string =>
  [
    'set -eu',
    'umask 077',
    'folder=$(mktemp -d /tmp/services.XXXXXX)',
    // A sandbox may have no IPv6 on its loopback device.
    'addresses=127.0.0.1',
    `if grep -q ' lo$' /proc/net/if_inet6 2> /dev/null; then addresses=127.0.0.1,::1; fi`,
    'fail() { tail -n 40 "$1" >&2; exit 1; }',
    `wait_for_port() { /usr/bin/python3 -I -S -c '${WAIT_PROGRAM}' "$1"; }`,
    ...uses.flatMap((use, index) => requireService(use).start(use, `$folder/${index}`)),
  ].join('\n')

/** Renders the command of the image. Servers refuse to run as root, so root starts them as another user. */
const renderCommand = ({ script, hosts }: ServicePlan): string =>
  [
    '#!/bin/sh',
    'if [ "$(id -u)" = 0 ]; then',
    ...hosts.map((host) => `  grep -qw ${host} /etc/hosts || echo '127.0.0.1 ${host}' >> /etc/hosts`),
    '  exec setpriv --reuid=nobody --regid=nogroup --clear-groups "$0"',
    'fi',
    script,
  ].join('\n')

/** Name of a user or a database. Anything else would need quoting in SQL. */
const IDENTIFIER = /^[A-Za-z0-9_][\w.$-]{0,62}$/

/** Returns a fault if one of these variables has a value that is not a plain name. */
const findNameFault = (env: Record<string, string>, names: readonly string[]): string | undefined => {
  const bad = names.find((name) => env[name] !== undefined && env[name] !== '' && !IDENTIFIER.test(env[name]))
  return bad === undefined ? undefined : `${bad} is not a plain name.`
}

/** Returns the first of these variables that is set and not empty. */
const findValue = (env: Record<string, string>, ...names: string[]): string | undefined =>
  names.map((name) => env[name]).find((value) => value !== undefined && value !== '')

const POSTGRES_USER = ['POSTGRES_USER', 'POSTGRESQL_USERNAME']
const POSTGRES_PASSWORD = ['POSTGRES_PASSWORD', 'POSTGRESQL_PASSWORD']
const POSTGRES_DATABASE = ['POSTGRES_DB', 'POSTGRESQL_DATABASE']

/** Version of PostgreSQL in each base image. Names of extension packages contain it. */
const POSTGRES_VERSIONS: Readonly<Record<string, number>> = { 'debian:trixie-slim': 17, 'debian:bookworm-slim': 15 }

const POSTGRES_EXTENSIONS: readonly [image: RegExp, packageSuffix: string][] = [
  [/postgis/, 'postgis-3'],
  [/pgvector/, 'pgvector'],
]

const postgres: Service = {
  id: 'postgres',
  name: 'PostgreSQL',
  image:
    /^(?:(?:library|bitnami|bitnamilegacy|cimg)\/)?postgres(?:ql)?$|^postgis\/postgis$|^(?:pgvector|ankane)\/pgvector$/,
  port: 5432,
  listPackages: (base, image) => [
    'libpq-dev',
    'locales',
    'postgresql',
    ...POSTGRES_EXTENSIONS.filter(([pattern]) => pattern.test(image)).map(
      ([, suffix]) => `postgresql-${POSTGRES_VERSIONS[base]}-${suffix}`,
    ),
  ],
  // The official image sorts text by this locale.
  toolchain: ['localedef -i en_US -f UTF-8 en_US.UTF-8'],
  findFault: (env) => findNameFault(env, [...POSTGRES_USER, ...POSTGRES_DATABASE]),
  start: startPostgres,
}

/** Databases live for one run, so nothing is flushed to disk. */
const POSTGRES_SETTINGS = [
  'fsync=off',
  'synchronous_commit=off',
  'full_page_writes=off',
  "listen_addresses='$addresses'",
]

/** Starts a new cluster in the way of the official image: a superuser, its password and one database. */
function startPostgres({ image, port, env }: ServiceUse, data: string): string[] {
  const user = findValue(env, ...POSTGRES_USER) ?? 'postgres'
  const password = findValue(env, ...POSTGRES_PASSWORD)
  const database = findValue(env, ...POSTGRES_DATABASE) ?? user
  const isOpen = password === undefined || env.POSTGRES_HOST_AUTH_METHOD === 'trust'
  const access = isOpen ? '--auth-host=trust' : `--auth-host=scram-sha-256 --pwfile="${data}.password"`
  // The C library of Alpine sorts by bytes.
  const locale = /alpine/.test(image) ? 'C.UTF-8' : 'en_US.UTF-8'
  const options = [`-p ${port} -k ${data}`, ...POSTGRES_SETTINGS.map((setting) => `-c ${setting}`)].join(' ')
  return [
    'bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)',
    ...(isOpen ? [] : [`printf '%s' ${quoteWord(password)} > "${data}.password"`]),
    `"$bin/initdb" -D "${data}" -U ${user} -E UTF8 --locale=${locale} --auth-local=trust ${access} -N > "${data}.log" 2>&1 || fail "${data}.log"`,
    `"$bin/pg_ctl" -D "${data}" -w -t 120 -l "${data}.log" -o "${options}" start > /dev/null 2>&1 || fail "${data}.log"`,
    ...(database === 'postgres'
      ? []
      : [`"$bin/createdb" -h "${data}" -p ${port} -U ${user} ${database} > "${data}.log" 2>&1 || fail "${data}.log"`]),
  ]
}

/** Names of a variable in the images of MySQL and MariaDB. */
const listVariableNames = (name: string): string[] => [`MYSQL_${name}`, `MARIADB_${name}`]

/** Debian has no MySQL server, so MariaDB also stands in for it. */
const mariadb: Service = {
  id: 'mariadb',
  name: 'MariaDB',
  image: /^(?:(?:library|bitnami|bitnamilegacy|cimg|mysql)\/)?(?:mysql|mysql-server|mariadb)$/,
  port: 3306,
  // These packages create no database of their own, unlike mariadb-server.
  listPackages: () => ['libmariadb-dev', 'mariadb-client-core', 'mariadb-server-core'],
  toolchain: [],
  findFault: (env) => findNameFault(env, [...listVariableNames('USER'), ...listVariableNames('DATABASE')]),
  start: startMariadb,
}

/** Databases live for one run, so nothing is flushed to disk. */
const MARIADB_OPTIONS = [
  '--bind-address="$addresses"',
  '--character-set-server=utf8mb4',
  '--skip-log-bin',
  '--skip-name-resolve',
  '--innodb-doublewrite=0',
  '--innodb-flush-log-at-trx-commit=0',
].join(' ')

function startMariadb({ port, env }: ServiceUse, data: string): string[] {
  const socket = `"${data}.sock"`
  return [
    `mariadb-install-db --no-defaults --datadir="${data}" --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve > "${data}.log" 2>&1 || fail "${data}.log"`,
    `mariadbd --no-defaults --datadir="${data}" --port=${port} --socket=${socket} --pid-file="${data}.pid" ${MARIADB_OPTIONS} < /dev/null > "${data}.log" 2>&1 &`,
    `wait_for_port ${port} || fail "${data}.log"`,
    `printf '%s\\n' ${listAccountStatements(env).map(quoteWord).join(' ')} | mariadb --no-defaults --socket=${socket} -u root > "${data}.log" 2>&1 || fail "${data}.log"`,
  ]
}

/** Creates the accounts in the way of the official images. The password of root is set last. */
function listAccountStatements(env: Record<string, string>): string[] {
  const database = findValue(env, ...listVariableNames('DATABASE'))
  const user = findValue(env, ...listVariableNames('USER'))
  const password = quoteText(findValue(env, ...listVariableNames('PASSWORD')) ?? '')
  const rootPassword = quoteText(findValue(env, ...listVariableNames('ROOT_PASSWORD')) ?? '')
  return [
    "DROP USER IF EXISTS root@'127.0.0.1', root@'::1';",
    ...(database === undefined ? [] : [`CREATE DATABASE \`${database}\`;`]),
    ...(user === undefined || user === 'root' ? [] : [`CREATE USER '${user}'@'%' IDENTIFIED BY ${password};`]),
    ...(user === undefined || user === 'root' || database === undefined
      ? []
      : [`GRANT ALL ON \`${database}\`.* TO '${user}'@'%';`]),
    `CREATE USER root@'%' IDENTIFIED BY ${rootPassword};`,
    "GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;",
    `ALTER USER root@localhost IDENTIFIED BY ${rootPassword};`,
  ]
}

const quoteText = (text: string): string => `'${text.replaceAll(/['\\]/g, '\\$&')}'`

const redis: Service = {
  id: 'redis',
  name: 'Redis',
  image: /^(?:(?:library|bitnami|bitnamilegacy|cimg|valkey)\/)?(?:redis|valkey)$/,
  port: 6379,
  listPackages: () => ['redis-server'],
  toolchain: [],
  findFault: () => undefined,
  start: ({ image, port, env }, data) => {
    // The official image has no variable for a password.
    const password = /bitnami/.test(image) ? findValue(env, 'REDIS_PASSWORD', 'VALKEY_PASSWORD') : undefined
    const access = password === undefined ? '' : ` --requirepass ${quoteWord(password)}`
    return [
      `mkdir "${data}"`,
      // The memory allocator of this server deadlocks with the library that shifts the clock.
      `env -u LD_PRELOAD redis-server --port ${port} --bind 127.0.0.1 -::1 --dir "${data}" --save '' --appendonly no --daemonize yes --logfile "${data}.log"${access} > /dev/null`,
      `wait_for_port ${port} || fail "${data}.log"`,
    ]
  },
}

const memcached: Service = {
  id: 'memcached',
  name: 'memcached',
  image: /^(?:(?:library|bitnami|bitnamilegacy)\/)?memcached$/,
  port: 11_211,
  listPackages: () => ['memcached'],
  toolchain: [],
  findFault: () => undefined,
  start: ({ port }, data) => [
    `memcached -p ${port} -U 0 -l "$addresses" < /dev/null > "${data}.log" 2>&1 &`,
    `wait_for_port ${port} || fail "${data}.log"`,
  ],
}

/** Every server that tests can have. */
export const services: readonly Service[] = [postgres, mariadb, redis, memcached]
