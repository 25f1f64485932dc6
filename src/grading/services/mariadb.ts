import { quoteWord } from '../languages/recipe.ts'
import { findNameFault, firstOf, type Service, type ServiceUse } from './service.ts'

const both = (name: string): string[] => [`MYSQL_${name}`, `MARIADB_${name}`]

/** Debian has no MySQL server, so MariaDB also stands in for it. */
export const mariadb: Service = {
  id: 'mariadb',
  name: 'MariaDB',
  image: /^(?:(?:library|bitnami|bitnamilegacy|cimg|mysql)\/)?(?:mysql|mysql-server|mariadb)$/,
  port: 3306,
  // These packages create no database of their own, unlike mariadb-server.
  listPackages: () => ['libmariadb-dev', 'mariadb-client-core', 'mariadb-server-core'],
  toolchain: [],
  findFault: (env) => findNameFault(env, [...both('USER'), ...both('DATABASE')]),
  start,
}

/** Databases live for one run, so nothing is flushed to disk. */
const OPTIONS = [
  '--bind-address="$addresses"',
  '--character-set-server=utf8mb4',
  '--skip-log-bin',
  '--skip-name-resolve',
  '--innodb-doublewrite=0',
  '--innodb-flush-log-at-trx-commit=0',
].join(' ')

function start({ port, env }: ServiceUse, data: string): string[] {
  const socket = `"${data}.sock"`
  return [
    `mariadb-install-db --no-defaults --datadir="${data}" --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve > "${data}.log" 2>&1 || fail "${data}.log"`,
    `mariadbd --no-defaults --datadir="${data}" --port=${port} --socket=${socket} --pid-file="${data}.pid" ${OPTIONS} < /dev/null > "${data}.log" 2>&1 &`,
    `wait_for_port ${port} || fail "${data}.log"`,
    `printf '%s\\n' ${listStatements(env).map(quoteWord).join(' ')} | mariadb --no-defaults --socket=${socket} -u root > "${data}.log" 2>&1 || fail "${data}.log"`,
  ]
}

/** Creates the accounts in the way of the official images. The password of root is set last. */
function listStatements(env: Record<string, string>): string[] {
  const database = firstOf(env, ...both('DATABASE'))
  const user = firstOf(env, ...both('USER'))
  const password = quoteText(firstOf(env, ...both('PASSWORD')) ?? '')
  const rootPassword = quoteText(firstOf(env, ...both('ROOT_PASSWORD')) ?? '')
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
