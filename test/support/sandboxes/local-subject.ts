import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createLog } from '../../../src/platform/log.ts'
import { createLocalProvider } from '../../../src/sandboxes/local.ts'
import type { ImageSource } from '../../../src/sandboxes/sandbox.ts'
import { baseRootfs } from '../base-image.ts'
import { provideImage } from './imported-image.ts'
import { processesNaming } from './processes.ts'
import type { ProviderUnderTest } from './provider-under-test.ts'

const run = promisify(execFile)

/** Opens a provider with its own data folder and the base image imported. */
export async function createLocalSubject(
  runtime: 'bwrap' | 'runc',
  { rootfs, unable = {} }: { rootfs?: string; unable?: Record<string, string> } = {},
): Promise<ProviderUnderTest> {
  const dataFolder = await mkdtemp(join(tmpdir(), 'assay-local-'))
  const provider = createLocalProvider({ dataFolder, runtime, allowHostBase: false, log: createLog('silent') })
  const name = 'debian:bookworm-slim'
  // The cache belongs to another user than a root file system of one's own.
  const image = rootfs
    ? await provider.importRootfs(rootfs, name)
    : await provideImage(dataFolder, await baseRootfs(), name, { builds: true })
  return {
    provider,
    image,
    otherImage: await provider.prepare(await otherSource(dataFolder), {
      signal: new AbortController().signal,
      timeoutSec: 60,
      onLog: () => {},
    }),
    brokenImage: { ...image, digest: 'sha256:nothing' },
    leftovers: (id) => findLeftovers(dataFolder, id),
    unable,
    [Symbol.asyncDispose]: () => rm(dataFolder, { recursive: true }),
  }
}

async function otherSource(dataFolder: string): Promise<ImageSource> {
  const folder = join(dataFolder, 'other')
  await mkdir(folder)
  await writeFile(join(folder, 'of-the-image'), 'image')
  return { kind: 'prebuilt', name: 'debian:bookworm-slim', folder, workdir: '/mine' }
}

/** Mounts, cgroups, processes, loop devices and files of this machine that name a sandbox. */
export async function findLeftovers(dataFolder: string, id: string): Promise<string[]> {
  const folder = join(dataFolder, 'sandboxes', 'local')
  const files = [...(await readdir(join(folder, 'run'))), ...(await readdir(join(folder, 'records')))]
  const trees = await readdir('/sys/fs/cgroup')
  const groups = await Promise.all(trees.map((tree) => readdir(join('/sys/fs/cgroup', tree)).catch(() => [])))
  const mounts = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n')
  const { stdout: loops } = await run('losetup', ['--list', '--noheadings', '--output', 'BACK-FILE'])
  const processes = await processesNaming(id)
  const all = [...files, ...groups.flat(), ...mounts, ...loops.split('\n'), ...processes]
  return all.filter((text) => text.includes(id))
}
