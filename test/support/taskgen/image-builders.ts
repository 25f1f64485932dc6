import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '../../../src/platform/log.ts'
import { createDockerProvider } from '../../../src/sandboxes/docker.ts'
import { createLocalProvider } from '../../../src/sandboxes/local.ts'
import type { SandboxProvider } from '../../../src/sandboxes/sandbox.ts'
import { type DebianSuite, equippedRootfs } from '../base-image.ts'
import { startDockerd } from '../dockerd.ts'
import { PACKAGE_HOSTS } from '../package-hosts.ts'
import { provideImage } from '../sandboxes/imported-image.ts'

export type Builder = AsyncDisposable & { provider: SandboxProvider; folder: string }

export const BASE = 'debian:trixie-slim'

/** Installs the certificates of this machine where `ca-certificates` finds them; Java reads one from a file. */
const TRUST = `mkdir -p /usr/local/share/ca-certificates && awk '/BEGIN CERT/ { n++ } n { print > ("/usr/local/share/ca-certificates/machine-" n ".crt") }' /usr/local/share/machine.crt`
/** Matches the settings of the official image: dpkg does not sync files and installs no manuals. */
const SLIM = `printf '%s\\n' force-unsafe-io 'path-exclude /usr/share/man/*' 'path-exclude /usr/share/doc/*' 'path-exclude /usr/share/locale/*' > /etc/dpkg/dpkg.cfg.d/slim && rm -rf /usr/share/man/*`

/** The minimal Debian that environments start from. */
export const bareRootfs = (suite: DebianSuite = 'trixie'): Promise<string> =>
  equippedRootfs('trusting', `${TRUST} && ${SLIM}`, suite)

/** A provider that builds real environments: it has a minimal Debian, and builds have network access. */
export async function openBuilder(sandbox: 'local' | 'docker', suites: DebianSuite[] = ['trixie']): Promise<Builder> {
  const bases = await Promise.all(
    suites.map(async (suite) => ({ name: `debian:${suite}-slim`, rootfs: await bareRootfs(suite) })),
  )
  const folder = await mkdtemp(join(tmpdir(), 'assay-builder-'))
  const remove = () => rm(folder, { recursive: true, force: true })
  return sandbox === 'local' ? openLocal(folder, bases, remove) : openDocker(folder, bases, remove)
}

type Bases = { name: string; rootfs: string }[]

async function openLocal(folder: string, bases: Bases, remove: () => Promise<void>): Promise<Builder> {
  const log = createLog('silent')
  const provider = createLocalProvider({
    dataFolder: folder,
    runtime: 'bwrap',
    allowHostBase: false,
    buildHosts: PACKAGE_HOSTS,
    log,
  })
  for (const { name, rootfs } of bases) await provideImage(folder, rootfs, name, { builds: true })
  return { provider, folder, [Symbol.asyncDispose]: remove }
}

async function openDocker(folder: string, bases: Bases, remove: () => Promise<void>): Promise<Builder> {
  const dockerd = await startDockerd({ images: Object.fromEntries(bases.map(({ name, rootfs }) => [name, rootfs])) })
  const connection = { kind: 'unix', path: dockerd.socket } as const
  const installation = randomUUID().slice(0, 8)
  const provider = createDockerProvider({
    connection,
    installation,
    dataFolder: folder,
    buildHosts: PACKAGE_HOSTS,
    log: createLog('silent'),
  })
  return {
    provider,
    folder,
    async [Symbol.asyncDispose]() {
      await dockerd[Symbol.asyncDispose]()
      await remove()
    },
  }
}
