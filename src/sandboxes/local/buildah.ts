import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Dockerfile } from '../../harbor/dockerfile.ts'
import { DEFAULT_LIMITS } from '../../harbor/limits.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { buildArgs, type LocalBuildNetwork, openBuildNetwork } from '../egress/build-egress.ts'
import { refuseTriggers } from '../kernel/dockerfile.ts'
import { buildEnterArgs, type NamespaceProcess, startNamespaceProcess } from '../kernel/namespace-process.ts'
import { runLogged, tryProgram } from '../kernel/run-program.ts'
import { quote, renderCommand } from '../kernel/shell.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import {
  createDraftPath,
  ImageSettings,
  type ImageStore,
  normalizeImageName,
  type StoredImage,
  saveImage,
  toImageSettings,
} from './image-store.ts'

/** `cgroupPrefix`: shell code that moves a command into the cgroup of a build. It is empty or ends with `&&`. */
type BuildahOptions = { signal: AbortSignal; onLog: (line: string) => void; cgroupPrefix?: string }
/** Network of the build, and the environment variables of its proxy. */
type BuildNetworkContext = { namespaceProcess: NamespaceProcess; env: Record<string, string> }
type BuildRequest = {
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
const BUILDAH_FOLDER = 'buildah'

const renderBuildahCommand = (store: ImageStore, ...args: string[]): string =>
  renderCommand(
    'buildah',
    '--root',
    join(store.folder, BUILDAH_FOLDER),
    '--runroot',
    join(store.folder, `${BUILDAH_FOLDER}-run`),
    '--storage-driver',
    'overlay',
    '--storage-opt',
    // Device files of an image would give access to devices of this machine.
    'overlay.mountopt=nodev',
    ...args,
  )

/**
 * Shell code after which buildah creates containers without netavark. buildah 1.39 requires netavark, which
 * packages of distributions only recommend. It is never started, because builds use a network that exists.
 */
function renderNetavarkStub(store: ImageStore): string {
  const folder = join(store.folder, `${BUILDAH_FOLDER}-helpers`)
  const settings = `[engine]\nhelper_binaries_dir=[${JSON.stringify(folder)}]\n`
  return `if [ ! -d ${quote(folder)} ]; then
  draft=$(${renderCommand('mktemp', '-d', `${folder}-XXXXXX`)})
  ${renderCommand('printf', '%s', '#!/bin/sh\nexit 1\n')} > "$draft/netavark"
  chmod 755 "$draft/netavark"
  ${renderCommand('printf', '%s', settings)} > "$draft/containers.conf"
  mv -T "$draft" ${quote(folder)} 2> /dev/null || rm -r "$draft"
fi
export CONTAINERS_CONF_OVERRIDE=${quote(join(folder, 'containers.conf'))}
`
}

/**
 * Runs buildah in its own namespaces, so that its mounts and processes end with it and no command of a Dockerfile sees
 * processes or devices of this machine.
 */
async function runInNamespaces(
  script: string,
  { signal, onLog, cgroupPrefix = '' }: BuildahOptions,
  network?: BuildNetworkContext,
): Promise<string> {
  const enterNetwork = network ? buildEnterArgs(network.namespaceProcess.pid, false, '--net') : []
  const unshare = ['unshare', '--mount', '--pid', '--fork', '--kill-child=KILL', '--mount-proc', '--ipc', '--uts']
  const [program = '', ...args] = [
    ...enterNetwork,
    ...unshare,
    'sh',
    '-e',
    '-c',
    `${cgroupPrefix}true || exit; ${BUILD_GUARD}\n${script}`,
  ]
  return runLogged(program, args, { signal, onLog, env: network?.env ?? {} })
}

type NetworkedOptions = BuildahOptions & { buildHosts: readonly AllowedHost[] }

/**
 * Runs buildah in a network that contains only the egress proxy of builds. `toScript` gets the environment variables of
 * the proxy.
 */
async function runInBuildNetwork(
  toScript: (env: Record<string, string>) => string,
  { buildHosts, ...options }: NetworkedOptions,
): Promise<string> {
  const namespaceProcess = await startNamespaceProcess({
    rootless: false,
    copyMountsOf: undefined,
    cwd: '/',
    network: 'isolated',
  })
  let network: LocalBuildNetwork | undefined
  try {
    network = await openBuildNetwork(namespaceProcess, { rootless: false, buildHosts, onLog: options.onLog })
    const { env } = network
    return await runInNamespaces(toScript(env), options, { namespaceProcess, env })
  } finally {
    network?.close()
    await namespaceProcess.end()
  }
}

/** Drops CAP_SYS_CHROOT: with it, a command could leave its root and reach all files of this machine. */
const CHROOT_FLAGS = ['--isolation', 'chroot', '--cap-drop', 'CAP_SYS_CHROOT']

const ULIMIT_MAX = 1_048_576

/**
 * Returns the limits of this process for open files and processes as flags. buildah 1.39 raises them to a default
 * otherwise, which fails without CAP_SYS_RESOURCE.
 */
async function buildUlimitFlags(): Promise<string[]> {
  const text = await readFile('/proc/self/limits', 'utf8')
  const toFlag = (name: string, title: string): string => {
    const hard = Number(new RegExp(`^${title} +\\S+ +(\\d+)`, 'm').exec(text)?.[1] ?? ULIMIT_MAX)
    const value = Math.min(hard, ULIMIT_MAX)
    return `--ulimit=${name}=${value}:${value}`
  }
  return [toFlag('nofile', 'Max open files'), toFlag('nproc', 'Max processes')]
}

/** Builds a Dockerfile. Its base image must be in the store and is never pulled. */
export async function buildWithBuildah(
  store: ImageStore,
  { dockerfile, text, context, target, args, key, bases }: BuildRequest,
  options: NetworkedOptions,
): Promise<StoredImage> {
  for (const base of bases) await provideBaseImage(store, base, options)
  const idFile = join(store.folder, await createDraftPath())
  const path = join(store.folder, await createDraftPath())
  try {
    await writeFile(path, text)
    const flags = [
      ...CHROOT_FLAGS,
      ...(await buildUlimitFlags()),
      '--pull=never',
      '--layers',
      '--iidfile',
      idFile,
      '-t',
      toBuiltName(key),
      '-f',
      path,
    ]
    if (target !== null) flags.push('--target', target)
    await runInBuildNetwork((env) => {
      const allArgs = Object.entries({ ...args, ...buildArgs(env, dockerfile) })
      const argFlags = allArgs.flatMap(([name, value]) => ['--build-arg', `${name}=${value}`])
      // Output and errors of commands are logged in order.
      return `${renderNetavarkStub(store)}${renderBuildahCommand(store, 'build', ...flags, ...argFlags, context)} >&2`
    }, options)
    return await readBuiltImage(store, (await readFile(idFile, 'utf8')).trim().replace('sha256:', ''))
  } finally {
    for (const file of [idFile, path]) await rm(file, { force: true })
  }
}

const toBuiltName = (key: string): string => `localhost/assay-built:${key}`

/** Removes built images, with the layers that no other image has. */
export async function removeWithBuildah(store: ImageStore, keys: readonly string[]): Promise<void> {
  const options = { signal: AbortSignal.timeout(SHORT_COMMAND_TIMEOUT_MS), onLog: () => {} }
  await runInNamespaces(`${renderBuildahCommand(store, 'rmi', ...keys.map(toBuiltName))} >&2`, options)
}

const SHORT_COMMAND_TIMEOUT_MS = 120_000

type PushTarget = {
  /** Repository and tag. */
  reference: string
  /** File with the credential of the registry. */
  authFile: string
  /** True for plain HTTP. */
  insecure: boolean
}

/** Pushes a built image to a registry and returns the digest of its manifest. */
export async function pushWithBuildah(
  store: ImageStore,
  key: string,
  { reference, authFile, insecure }: PushTarget,
  options: BuildahOptions,
): Promise<string> {
  const digestFile = join(store.folder, await createDraftPath())
  const flags = ['--authfile', authFile, '--digestfile', digestFile, `--tls-verify=${!insecure}`]
  try {
    const push = renderBuildahCommand(store, 'push', ...flags, toBuiltName(key), `docker://${reference}`)
    await runInNamespaces(`${push} >&2`, options)
    return (await readFile(digestFile, 'utf8')).trim()
  } finally {
    await rm(digestFile, { force: true })
  }
}

/** Creates and mounts an empty container, so that missing rights or programs are found before the first build. */
export async function testBuildah(store: ImageStore): Promise<void> {
  const options = { signal: AbortSignal.timeout(SHORT_COMMAND_TIMEOUT_MS), onLog: () => {} }
  const script = `${renderNetavarkStub(store)}container=$(${renderBuildahCommand(store, 'from', 'scratch')})
${renderBuildahCommand(store, 'mount')} "$container" > /dev/null || code=$?
${renderBuildahCommand(store, 'rm')} "$container" > /dev/null
exit "\${code:-0}"`
  await runInNamespaces(script, options)
}

/**
 * Pulls an image from a registry. The registry chooses further addresses, for tokens and by redirects. With `buildHosts`,
 * buildah reaches only what a build may reach; without, everything that the machine reaches.
 */
export async function pullWithBuildah(
  store: ImageStore,
  name: string,
  { buildHosts, ...options }: BuildahOptions & Partial<NetworkedOptions>,
): Promise<StoredImage> {
  const command = renderBuildahCommand(store, 'pull', '--quiet', toRegistryName(name))
  const text = buildHosts
    ? await runInBuildNetwork(() => command, { ...options, buildHosts })
    : await runInNamespaces(command, options)
  return readBuiltImage(store, text.trim().split('\n').at(-1) ?? '', name)
}

/** Puts an imported image where buildah looks for the name, once for the same content. */
async function provideBaseImage(
  store: ImageStore,
  { name, image }: BuildRequest['bases'][number],
  options: BuildahOptions,
): Promise<void> {
  const [layer = ''] = image.layers
  if (layer.startsWith(BUILDAH_FOLDER)) return // pulled by buildah
  const label = image.digest.replace(':', '-')
  const baseName = `localhost/assay-base:${label.slice(0, 40)}`
  const tag = toRegistryName(name)
  const merge = renderCommand('mount', '-t', 'overlay', 'overlay', '-o', `ro,lowerdir=${image.layers.join(':')}`)
  const script = `${renderNetavarkStub(store)}${renderCommand('cd', store.folder)}
if ! ${renderBuildahCommand(store, 'inspect', '--type', 'image', baseName)} > /dev/null 2>&1; then
  container=$(${renderBuildahCommand(store, 'from', 'scratch')})
  target=$(${renderBuildahCommand(store, 'mount')} "$container")
  ${image.layers.length === 1 ? `source=${quote(layer)}` : `source=$(mktemp -d); ${merge} "$source"`}
  cp -a "$source/." "$target/"
  ${renderBuildahCommand(store, 'umount')} "$container" > /dev/null
  ${renderBuildahCommand(store, 'config', ...toConfigFlags(image))} "$container"
  ${renderBuildahCommand(store, 'commit', '--quiet', '--rm')} "$container" ${quote(baseName)} > /dev/null
fi
${renderBuildahCommand(store, 'tag', baseName, tag)}`
  await runInNamespaces(script, options)
}

/** Returns the name that buildah looks up: with the registry, which defaults to Docker's. */
export function toRegistryName(name: string): string {
  const full = normalizeImageName(name)
  const [first = '', ...rest] = full.split('/')
  if (rest.length === 0) return `docker.io/library/${full}`
  return /[.:]|^localhost$/.test(first) ? full : `docker.io/${full}`
}

const toConfigFlags = ({ env, workdir, user, entrypoint, command }: StoredImage): string[] => [
  ...Object.entries(env).flatMap(([name, value]) => ['--env', `${name}=${value}`]),
  ...['--workingdir', workdir, '--user', user],
  ...['--entrypoint', JSON.stringify(entrypoint), '--cmd', JSON.stringify(command)],
]

/** Entries in the metadata of containers/storage. The layer of an image is its topmost one. */
type StorageLayer = { id: string; parent?: string }
type StorageImage = { id: string; layer?: string }

/** Reads an image of buildah in place: the metadata of containers/storage lists its layers, which are folders for overlay. */
async function readBuiltImage(store: ImageStore, id: string, name = id): Promise<StoredImage> {
  const read = async (...path: string[]) =>
    JSON.parse(await readFile(join(store.folder, BUILDAH_FOLDER, ...path), 'utf8'))
  const images: StorageImage[] = await read('overlay-images', 'images.json')
  const layers: StorageLayer[] = await read('overlay-layers', 'layers.json')
  const chain: string[] = []
  const parents = new Map(layers.map((layer) => [layer.id, layer.parent]))
  let layerId = images.find((image) => image.id === id)?.layer
  while (layerId !== undefined) {
    chain.push(join(BUILDAH_FOLDER, 'overlay', layerId, 'diff'))
    layerId = parents.get(layerId)
  }
  if (chain.length === 0) throw new SandboxUnavailable(`The image ${id} that buildah built has no layers.`)
  // The store names a file with the configuration `=` and its key in base64.
  const configFile = `=${Buffer.from(`sha256:${id}`).toString('base64')}`
  const { config } = await read('overlay-images', id, configFile)
  const settings = ImageSettings.parse(config ?? {})
  refuseTriggers(name, settings.OnBuild ?? [])
  return saveImage(store, { layers: chain, ...toImageSettings(settings), base: 'image' })
}

/**
 * Shell code that runs as root in its own mount namespace. Commands of buildah see `/dev` and `/proc` of this machine as
 * root, so only harmless devices remain and kernel settings are mounted read-only.
 */
const BUILD_GUARD = `dev=/dev/shm; [ -d "$dev" ] || dev=/mnt
mount -t tmpfs -o mode=755,nosuid,noexec tmpfs "$dev"
for name in null zero full random urandom tty; do : > "$dev/$name"; mount --bind "/dev/$name" "$dev/$name"; done
mkdir "$dev/pts" "$dev/shm"
mount -t devpts -o newinstance,nosuid,noexec,ptmxmode=0666,mode=620 devpts "$dev/pts"
mount -t tmpfs -o mode=1777,nosuid,nodev,size=${DEFAULT_LIMITS.shmMb}m tmpfs "$dev/shm"
ln -s pts/ptmx "$dev/ptmx"; ln -s /proc/self/fd "$dev/fd"
ln -s /proc/self/fd/0 "$dev/stdin"; ln -s /proc/self/fd/1 "$dev/stdout"; ln -s /proc/self/fd/2 "$dev/stderr"
mount --move "$dev" /dev
for name in sys irq bus fs sysrq-trigger; do
  if [ -e "/proc/$name" ]; then mount --bind "/proc/$name" "/proc/$name"; mount -o remount,bind,ro "/proc/$name"; fi
done`
