import { type EnvRecipe, quoteWord } from '../languages/recipe.ts'
import type { ServicePlan } from '../suite.ts'
import { type Service, type ServiceUse, services } from './servers.ts'

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
    ...uses.flatMap((use, at) => requireService(use).start(use, `$folder/${at}`)),
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
