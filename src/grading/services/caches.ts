import { quoteWord } from '../languages/recipe.ts'
import { firstOf, type Service } from './service.ts'

export const redis: Service = {
  id: 'redis',
  name: 'Redis',
  image: /^(?:(?:library|bitnami|bitnamilegacy|cimg|valkey)\/)?(?:redis|valkey)$/,
  port: 6379,
  listPackages: () => ['redis-server'],
  toolchain: [],
  findFault: () => undefined,
  start: ({ image, port, env }, data) => {
    // The official image ignores the variable.
    const password = /bitnami/.test(image) ? firstOf(env, 'REDIS_PASSWORD', 'VALKEY_PASSWORD') : undefined
    const access = password === undefined ? '' : ` --requirepass ${quoteWord(password)}`
    return [
      `mkdir "${data}"`,
      // The memory allocator of this server deadlocks with the library that shifts the clock.
      `env -u LD_PRELOAD redis-server --port ${port} --bind 127.0.0.1 -::1 --dir "${data}" --save '' --appendonly no --daemonize yes --logfile "${data}.log"${access} > /dev/null`,
      `wait_for_port ${port} || fail "${data}.log"`,
    ]
  },
}

export const memcached: Service = {
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
