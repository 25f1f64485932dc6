import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { baseRootfs } from '../../test/support/base-image.ts'
import { startServer } from '../../test/support/loopback-servers.ts'
import { PACKAGE_HOSTS } from '../../test/support/package-hosts.ts'
import { openCaseContext } from '../../test/support/sandboxes/case-context.ts'
import { createLog } from '../platform/log.ts'
import { parseAllowedHost } from './egress/rules.ts'
import { pullWithBuildah } from './local/buildah.ts'
import { createLocalProvider, type LocalOptions } from './local.ts'

vi.setConfig({ testTimeout: 120_000 })

const IMAGE = 'debian:bookworm-slim'

let dataFolder: string

beforeAll(async () => {
  dataFolder = await mkdtemp(join(tmpdir(), 'assay-build-network-'))
  await open().importRootfs(await baseRootfs(), IMAGE)
}, 600_000)

afterAll(() => rm(dataFolder, { recursive: true }))

const open = (options: Partial<LocalOptions> = {}) =>
  createLocalProvider({ dataFolder, runtime: 'bwrap', allowHostBase: false, log: createLog('silent'), ...options })

/** Output of the builds. */
const lines: string[] = []

/** Builds, and runs a line in what was built. */
async function built(options: Partial<LocalOptions>, files: Record<string, string>, script: string): Promise<string> {
  const provider = open(options)
  const context = await mkdtemp(join(dataFolder, 'task-'))
  for (const [path, text] of Object.entries(files)) await writeFile(join(context, path), text)
  const image = await provider.prepare(
    { kind: 'dockerfile', context, dockerfile: 'Dockerfile', target: null, args: {} },
    { signal: new AbortController().signal, timeoutSec: 100, onLog: (line) => void lines.push(line) },
  )
  const subject = { provider, image, otherImage: image, brokenImage: image, unable: {}, leftovers: async () => [] }
  await using fixture = await openCaseContext({ ...subject, [Symbol.asyncDispose]: async () => {} })
  return (await fixture.run(script)).output
}

const BUILDERS = [
  ['buildah', { useBuildah: true }],
  ['our own builder', { useBuildah: false }],
] as const

const install = (by: string) => `FROM ${IMAGE}
LABEL by=${by.length}
RUN apt-get update && apt-get install -y --no-install-recommends netbase
`

test.each(BUILDERS)(
  '%s: a command installs packages, and nothing of the egress proxy stays in the image',
  async (name, by) => {
    const script = 'head -c 20 /etc/protocols; env | grep -ci proxy; grep -rci proxy /etc/apt /etc/environment'
    const output = await built({ ...by, buildHosts: PACKAGE_HOSTS }, { Dockerfile: install(name) }, script)
    expect(output).toContain('Internet')
    expect(output).not.toMatch(/[1-9]$/m)
  },
)

test.each(BUILDERS)('%s: a build reaches the hosts and ports that the operator lists', async (_, by) => {
  await using mirror = await startServer((_request, response) => void response.end('a package'))
  await using other = await startServer((_request, response) => void response.end('a secret'))
  const buildHosts = [`127.0.0.1:${mirror.port}`].flatMap((text) => parseAllowedHost(text) ?? [])
  const get = ({ port }: { port: number }) =>
    `exec 3<>"/dev/tcp/127.0.0.1/\${http_proxy##*:}"; printf 'GET http://127.0.0.1:${port}/ HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3`
  const command = ['bash', '-c', `{ ${get(mirror)}; ${get(other)}; } > /got`]
  const dockerfile = `FROM ${IMAGE}\nRUN ${JSON.stringify(command)}\n`
  const output = await built({ ...by, buildHosts }, { Dockerfile: dockerfile }, 'cat /got')
  expect(output).toMatch(/ 200 OK[\s\S]*a package[\s\S]* 403 Forbidden/)
  expect(other.requests).toEqual([])
  expect(lines.at(-1)).toMatch(new RegExp(`^127.0.0.1:${other.port} was refused .* ASSAY_BUILD_HOSTS\\.$`))
})

test('buildah pulls in the network of a build, so that a registry cannot lead it to an internal address', async () => {
  let connections = 0
  const internal = createServer((socket) => {
    connections += 1
    socket.destroy()
  }).listen(0, '127.0.0.1')
  await using _closed = { [Symbol.asyncDispose]: async () => void internal.close() }
  await once(internal, 'listening')
  const { port } = internal.address() as AddressInfo
  const pull = (options: { buildHosts?: [] }) =>
    pullWithBuildah({ folder: join(dataFolder, 'pulls') }, `127.0.0.1:${port}/image`, {
      signal: AbortSignal.timeout(60_000),
      onLog: () => {},
      ...options,
    })
  await expect(pull({ buildHosts: [] })).rejects.toThrow()
  expect(connections).toBe(0)
  await expect(pull({})).rejects.toThrow()
  expect(connections).toBeGreaterThan(0)
})
