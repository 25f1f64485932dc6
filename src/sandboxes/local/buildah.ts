import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Dockerfile } from '../../harbor/dockerfile.ts'
import { DEFAULT_LIMITS } from '../../harbor/limits.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { buildArgs, type LocalBuildNetwork, openBuildNetwork } from '../egress/build-egress.ts'
import { refuseTriggers } from '../kernel/dockerfile.ts'
import { enter, type NamespaceProcess, startNamespaceProcess } from '../kernel/namespace-process.ts'
import { runLogged, tryProgram } from '../kernel/run-program.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import {
  fullName,
  ImageSettings,
  type ImageStore,
  newDraft,
  type StoredImage,
  saveImage,
  settingsOf,
} from './image-store.ts'
import { line } from './shell.ts'

export type BuildahOptions = { signal: AbortSignal; onLog: (line: string) => void; entering?: string }
/** Network of the build, and the environment variables of its proxy. */
type BuildNetworkContext = { holder: NamespaceProcess; env: Record<string, string> }
export type BuildRequest = {
  dockerfile: Dockerfile
  text: string
  context: string
  target: string | null
  args: Record<string, string>
  /** Names the image, so that buildah does not treat it as a leftover of another build. */
  key: string
  bases: { name: string; image: StoredImage }[]
}

/** Caches that buildah is installed, because starting buildah takes longer than starting a sandbox. */
let isInstalled = false

export async function hasBuildah(): Promise<boolean> {
  isInstalled ||= (await tryProgram('buildah', ['--version'])).code === 0
  return isInstalled
}

/** Folder of buildah in the store, whose layers are used in place. */
const ROOT = 'buildah'

const buildah = (store: ImageStore, ...args: string[]): string =>
  line(
    ...['buildah', '--root', join(store.folder, ROOT), '--runroot', join(store.folder, `${ROOT}-run`)],
    // Device files of an image would give access to devices of this machine.
    ...['--storage-driver', 'overlay', '--storage-opt', 'overlay.mountopt=nodev', ...args],
  )

/**
 * Runs buildah in its own namespaces, so that its mounts and processes end with it and no command of a Dockerfile sees
 * processes or devices of this machine.
 */
async function inNamespaces(
  script: string,
  { signal, onLog, entering = '' }: BuildahOptions,
  apart?: BuildNetworkContext,
): Promise<string> {
  const network = apart ? enter(apart.holder.pid, false, '--net') : []
  const own = ['unshare', '--mount', '--pid', '--fork', '--kill-child=KILL', '--mount-proc', '--ipc', '--uts']
  const [program = '', ...args] = [
    ...network,
    ...own,
    'sh',
    '-e',
    '-c',
    `${entering}true || exit; ${BUILD_GUARD}\n${script}`,
  ]
  return runLogged(program, args, { signal, onLog, env: apart?.env ?? {} })
}

/** Drops CAP_SYS_CHROOT: with it, a command could leave its root and reach all files of this machine. */
const CHROOT = ['--isolation', 'chroot', '--cap-drop', 'CAP_SYS_CHROOT']

/** Builds a Dockerfile. Its base image must be in the store and is never pulled. */
export async function buildWithBuildah(
  store: ImageStore,
  { dockerfile, text, context, target, args, key, bases }: BuildRequest,
  { buildHosts, ...options }: BuildahOptions & { buildHosts: readonly AllowedHost[] },
): Promise<StoredImage> {
  for (const base of bases) await provideBase(store, base, options)
  const idFile = join(store.folder, await newDraft())
  const path = join(store.folder, await newDraft())
  const holder = await startNamespaceProcess({ rootless: false, beside: undefined, cwd: '/', network: 'alone' })
  let network: LocalBuildNetwork | undefined
  try {
    await writeFile(path, text)
    network = await openBuildNetwork(holder, { rootless: false, buildHosts, onLog: options.onLog })
    const { env } = network
    const flags = [...CHROOT, '--pull=never', '--layers', '--iidfile', idFile, '-t', builtName(key), '-f', path]
    if (target !== null) flags.push('--target', target)
    const given = { ...args, ...buildArgs(env, dockerfile) }
    for (const [name, value] of Object.entries(given)) flags.push('--build-arg', `${name}=${value}`)
    // Output and errors of commands are logged in order.
    await inNamespaces(`${buildah(store, 'build', ...flags, context)} >&2`, options, { holder, env })
    return await takeImage(store, (await readFile(idFile, 'utf8')).trim().replace('sha256:', ''))
  } finally {
    network?.close()
    await holder.end()
    for (const file of [idFile, path]) await rm(file, { force: true })
  }
}

const builtName = (key: string): string => `localhost/assay-built:${key}`

/** Removes built images, with the layers of which nothing else is made. */
export async function removeWithBuildah(store: ImageStore, keys: readonly string[]): Promise<void> {
  const options = { signal: AbortSignal.timeout(REMOVE_MS), onLog: () => {} }
  await inNamespaces(`${buildah(store, 'rmi', ...keys.map(builtName))} >&2`, options)
}

const REMOVE_MS = 120_000

/** Pulls an image from a registry. */
export async function pullWithBuildah(store: ImageStore, name: string, options: BuildahOptions): Promise<StoredImage> {
  const text = await inNamespaces(buildah(store, 'pull', '--quiet', registryName(name)), options)
  return takeImage(store, text.trim().split('\n').at(-1) ?? '', name)
}

/** Puts an imported image where buildah looks for the name, once for the same content. */
async function provideBase(
  store: ImageStore,
  { name, image }: BuildRequest['bases'][number],
  options: BuildahOptions,
): Promise<void> {
  const [layer = ''] = image.layers
  if (layer.startsWith(ROOT)) return // pulled by buildah
  const label = image.digest.replace(':', '-')
  const known = `localhost/assay-base:${label.slice(0, 40)}`
  const tag = registryName(name)
  const merge = line('mount', '-t', 'overlay', 'overlay', '-o', `ro,lowerdir=${[...image.layers, 'drafts'].join(':')}`)
  const script = `${line('cd', store.folder)}
if ! ${buildah(store, 'inspect', '--type', 'image', known)} > /dev/null 2>&1; then
  container=$(${buildah(store, 'from', 'scratch')})
  target=$(${buildah(store, 'mount')} "$container")
  ${image.layers.length === 1 ? `source=${line(layer)}` : `source=$(mktemp -d); ${merge} "$source"`}
  cp -a "$source/." "$target/"
  ${buildah(store, 'umount')} "$container" > /dev/null
  ${buildah(store, 'config', ...configOf(image))} "$container"
  ${buildah(store, 'commit', '--quiet', '--rm')} "$container" ${line(known)} > /dev/null
fi
${buildah(store, 'tag', known, tag)}`
  await inNamespaces(script, options)
}

/** Returns the name that buildah looks up: with the registry, which defaults to Docker's. */
export function registryName(name: string): string {
  const full = fullName(name)
  const [first = '', ...rest] = full.split('/')
  if (rest.length === 0) return `docker.io/library/${full}`
  return /[.:]|^localhost$/.test(first) ? full : `docker.io/${full}`
}

const configOf = ({ env, workdir, user, entrypoint, command }: StoredImage): string[] => [
  ...Object.entries(env).flatMap(([name, value]) => ['--env', `${name}=${value}`]),
  ...['--workingdir', workdir, '--user', user],
  ...['--entrypoint', JSON.stringify(entrypoint), '--cmd', JSON.stringify(command)],
]

type Layer = { id: string; parent?: string }
type ImageEntry = { id: string; layer?: string }

/** Reads an image of buildah in place: the metadata of containers/storage lists its layers, which are folders for overlay. */
async function takeImage(store: ImageStore, id: string, name = id): Promise<StoredImage> {
  const read = async (...path: string[]) => JSON.parse(await readFile(join(store.folder, ROOT, ...path), 'utf8'))
  const images: ImageEntry[] = await read('overlay-images', 'images.json')
  const layers: Layer[] = await read('overlay-layers', 'layers.json')
  const chain: string[] = []
  for (let next = images.find((image) => image.id === id)?.layer; next !== undefined; ) {
    const current: string = next
    chain.push(join(ROOT, 'overlay', current, 'diff'))
    next = layers.find((layer) => layer.id === current)?.parent
  }
  if (chain.length === 0) throw new SandboxUnavailable(`The image ${id} that buildah built has no layers.`)
  const { config } = await read('overlay-images', id, `=${Buffer.from(`sha256:${id}`).toString('base64')}`)
  const settings = ImageSettings.parse(config ?? {})
  refuseTriggers(name, settings.OnBuild ?? [])
  return saveImage(store, { layers: chain, ...settingsOf(settings), base: 'image' })
}

/**
 * Shell code that runs as root in its own mount namespace. Commands of buildah see `/dev` and `/proc` of this machine as
 * root, so only harmless devices remain and kernel settings are mounted read-only.
 */
const BUILD_GUARD = `place=/dev/shm; [ -d "$place" ] || place=/mnt
mount -t tmpfs -o mode=755,nosuid,noexec tmpfs "$place"
for name in null zero full random urandom tty; do : > "$place/$name"; mount --bind "/dev/$name" "$place/$name"; done
mkdir "$place/pts" "$place/shm"
mount -t devpts -o newinstance,nosuid,noexec,ptmxmode=0666,mode=620 devpts "$place/pts"
mount -t tmpfs -o mode=1777,nosuid,nodev,size=${DEFAULT_LIMITS.shmMb}m tmpfs "$place/shm"
ln -s pts/ptmx "$place/ptmx"; ln -s /proc/self/fd "$place/fd"
ln -s /proc/self/fd/0 "$place/stdin"; ln -s /proc/self/fd/1 "$place/stdout"; ln -s /proc/self/fd/2 "$place/stderr"
mount --move "$place" /dev
for name in sys irq bus fs sysrq-trigger; do
  if [ -e "/proc/$name" ]; then mount --bind "/proc/$name" "/proc/$name"; mount -o remount,bind,ro "/proc/$name"; fi
done`
