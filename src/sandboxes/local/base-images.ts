import { createHash } from 'node:crypto'
import { copyFile, lstat, mkdir, readdir, readlink, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ignoreCode } from '../../platform/errors.ts'
import { isListedRegistry, leadsToPrivateRegistry } from '../../platform/outbound/image-registry.ts'
import { resolveName } from '../../platform/outbound/public-host.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { buildOnce } from '../kernel/prepare-image.ts'
import { runProgram } from '../kernel/run-program.ts'
import { STANDARD_PATH } from '../kernel/shell.ts'
import { type PrepareOptions, SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import { pullWithBuildah } from './buildah.ts'
import {
  createLayer,
  DEFAULT_SETTINGS,
  findCompleteBuild,
  findImage,
  type ImageStore,
  nameImage,
  normalizeImageName,
  type StoredImage,
  saveBuild,
  saveImage,
} from './image-store.ts'

export type NamedBase = { name: string; image: StoredImage }

export type BaseSources = {
  store: ImageStore
  withBuildah: boolean
  allowHostBase: boolean
  buildHosts: readonly AllowedHost[]
}

export async function resolveBases(
  sources: BaseSources,
  names: string[],
  options: PrepareOptions,
): Promise<NamedBase[]> {
  return Promise.all(names.map(async (name) => ({ name, image: await resolveBase(sources, name, options) })))
}

/** Resolves a base image: imported, the system files of this machine if allowed, or pulled. Throws if there is none. */
export async function resolveBase(sources: BaseSources, name: string, options: PrepareOptions): Promise<StoredImage> {
  const { store } = sources
  const known = await findImage(store, name)
  if (known) return known
  if (sources.allowHostBase) return prepareHostBase(store, options.signal)
  return pull(sources, name, options)
}

async function pull(
  { store, withBuildah, buildHosts }: BaseSources,
  name: string,
  options: PrepareOptions,
): Promise<StoredImage> {
  if (!withBuildah) throw createImageMissingError(name)
  if (await leadsToPrivateRegistry(name, buildHosts, resolveName))
    throw createImageMissingError(
      name,
      new Error('Registries in private networks must be listed in ASSAY_BUILD_HOSTS.'),
    )
  // A registry that the operator lists is trusted, and may be reached by other ways than the proxy of builds.
  const pullOptions = isListedRegistry(name, buildHosts) ? options : { ...options, buildHosts }
  const image = await pullWithBuildah(store, name, pullOptions).catch((error: unknown) => {
    throw error instanceof SandboxUnsupported ? error : createImageMissingError(name, error)
  })
  await nameImage(store, name, image)
  return image
}

const createImageMissingError = (name: string, cause?: unknown): SandboxUnavailable =>
  new SandboxUnavailable(
    `Image ${normalizeImageName(name)} not found${cause === undefined ? '' : ', and it could not be pulled'}. Import one: assay images import <folder or tar> --name ${name}. Or set ASSAY_ALLOW_HOST_BASE=1 to use the files of this machine in its place.`,
    { cause },
  )

/** System files that programs need to start. None of them is private. */
const SYSTEM_FOLDERS = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']
const ETC_FILES =
  'passwd group nsswitch.conf ld.so.cache ld.so.conf os-release debian_version protocols services localtime mime.types'.split(
    ' ',
  )
const ETC_FOLDERS = ['alternatives', 'ld.so.conf.d', 'ssl/certs', 'python3', 'perl']
const EMPTY_FOLDERS = 'dev proc sys run tmp var/tmp var/lib root home mnt opt srv etc'.split(' ')

/**
 * Returns a base image of this machine's programs, read-only. It is created again when their files have changed. The
 * operator must allow it, and results state that it was used.
 */
async function prepareHostBase(store: ImageStore, signal: AbortSignal): Promise<StoredImage> {
  const binds: string[] = []
  const links: [string, string][] = []
  for (const path of SYSTEM_FOLDERS) {
    const stats = await lstat(path).catch(() => undefined)
    if (stats?.isSymbolicLink()) links.push([path, await readlink(path)])
    if (stats?.isDirectory()) binds.push(path)
  }
  const inside = binds.find((path) => `${store.folder}/`.startsWith(`${path}/`))
  if (inside) throw new SandboxUnsupported(`${inside} contains the data folder, so it cannot be part of a base image.`)

  const parts = [binds, links, await listVersions([...ETC_FILES, ...ETC_FOLDERS])]
  const key = createHash('sha256').update(JSON.stringify(parts)).digest('hex')
  const build = async () => {
    const image = await createHostBase(store, binds, links)
    await saveBuild(store, key, image)
    return image
  }
  return buildOnce(join(store.folder, key), { find: () => findCompleteBuild(store, key), build, signal })
}

/** Lists the files of `/etc` below the names, each with a fingerprint that changes with its content or rights. */
async function listVersions(names: readonly string[]): Promise<string[]> {
  const versions = names.map(async (name): Promise<string[]> => {
    const path = join('/etc', name)
    const stats = await lstat(path).catch(ignoreCode('ENOENT'))
    if (!stats) return []
    const within = stats.isDirectory() ? await readdir(path) : []
    const inner = await listVersions(within.sort().map((each) => join(name, each)))
    return [`${name} ${stats.ino} ${stats.mode} ${stats.size} ${stats.ctimeMs}`, ...inner]
  })
  return (await Promise.all(versions)).flat()
}

async function createHostBase(store: ImageStore, binds: string[], links: [string, string][]): Promise<StoredImage> {
  const layer = await createLayer(store, async (draft) => {
    for (const path of [...EMPTY_FOLDERS, ...binds]) await mkdir(join(draft, path), { recursive: true, mode: 0o755 })
    for (const [path, target] of links) await symlink(target, join(draft, path))
    await runProgram('chmod', ['1777', join(draft, 'tmp'), join(draft, 'var/tmp')])
    for (const name of ETC_FILES)
      await copyFile(join('/etc', name), join(draft, 'etc', name)).catch(ignoreCode('ENOENT'))
    for (const name of ETC_FOLDERS) await copyFolder(join('/etc', name), join(draft, 'etc', name))
  })
  const env = { PATH: STANDARD_PATH }
  return saveImage(store, { ...DEFAULT_SETTINGS, layers: [layer], binds, env, base: 'host-base' })
}

async function copyFolder(source: string, target: string): Promise<void> {
  const stats = await lstat(source).catch(ignoreCode('ENOENT'))
  if (!stats?.isDirectory()) return
  await mkdir(dirname(target), { recursive: true })
  await runProgram('cp', ['-a', '-T', '--', source, target])
}
