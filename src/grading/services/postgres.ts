import { quoteWord } from '../languages/recipe.ts'
import { findNameFault, firstOf, type Service, type ServiceUse } from './service.ts'

const USER = ['POSTGRES_USER', 'POSTGRESQL_USERNAME']
const PASSWORD = ['POSTGRES_PASSWORD', 'POSTGRESQL_PASSWORD']
const DATABASE = ['POSTGRES_DB', 'POSTGRESQL_DATABASE']

/** Version of the server in each base image. Names of extension packages contain it. */
const VERSIONS: Readonly<Record<string, number>> = { 'debian:trixie-slim': 17, 'debian:bookworm-slim': 15 }

const EXTENSIONS: readonly [image: RegExp, packageSuffix: string][] = [
  [/postgis/, 'postgis-3'],
  [/pgvector/, 'pgvector'],
]

export const postgres: Service = {
  id: 'postgres',
  name: 'PostgreSQL',
  image:
    /^(?:(?:library|bitnami|bitnamilegacy|cimg)\/)?postgres(?:ql)?$|^postgis\/postgis$|^(?:pgvector|ankane)\/pgvector$/,
  port: 5432,
  listPackages: (base, image) => [
    'libpq-dev',
    'locales',
    'postgresql',
    ...EXTENSIONS.filter(([pattern]) => pattern.test(image)).map(
      ([, suffix]) => `postgresql-${VERSIONS[base]}-${suffix}`,
    ),
  ],
  // The official image sorts text by this locale.
  toolchain: ['localedef -i en_US -f UTF-8 en_US.UTF-8'],
  findFault: (env) => findNameFault(env, [...USER, ...DATABASE]),
  start,
}

/** Databases live for one run, so nothing is flushed to disk. */
const SETTINGS = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off', "listen_addresses='$addresses'"]

/** Starts a new cluster in the way of the official image: a superuser, its password and one database. */
function start({ image, port, env }: ServiceUse, data: string): string[] {
  const user = firstOf(env, ...USER) ?? 'postgres'
  const password = firstOf(env, ...PASSWORD)
  const database = firstOf(env, ...DATABASE) ?? user
  const isOpen = password === undefined || env.POSTGRES_HOST_AUTH_METHOD === 'trust'
  const access = isOpen ? '--auth-host=trust' : `--auth-host=scram-sha-256 --pwfile="${data}.password"`
  // The C library of Alpine sorts by bytes.
  const locale = /alpine/.test(image) ? 'C.UTF-8' : 'en_US.UTF-8'
  const options = [`-p ${port} -k ${data}`, ...SETTINGS.map((setting) => `-c ${setting}`)].join(' ')
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
