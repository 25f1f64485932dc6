import { createHash } from 'node:crypto'
import { access, mkdir, rename, rm } from 'node:fs/promises'
import { join, posix } from 'node:path'
import type { Dockerfile, DockerfileInstruction, DockerfileStage } from '../../harbor/dockerfile.ts'
import { DEFAULT_LIMITS } from '../../harbor/limits.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { type LocalBuildNetwork, openBuildNetwork } from '../egress/build-egress.ts'
import { CAPABILITIES } from '../kernel/accounts.ts'
import { type NamespaceProcess, startNamespaceProcess } from '../kernel/namespace-process.ts'
import { computeTreeDigest } from '../kernel/prepare-image.ts'
import { findInside } from '../kernel/sandbox-path.ts'
import { quote, renderCommand } from '../kernel/shell.ts'
import { type PrepareOptions, SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import { buildShmArgs, FILTER_FD, SEAL_PROGRAM } from './bwrap.ts'
import { asOrdinaryUser, refuseLinks, resolveSandboxAccount } from './files.ts'
import { createDraftPath, findBuild, type ImageStore, type StoredImage, saveBuild, saveImage } from './image-store.ts'
import { buildLauncherArgs, listHidden, listLauncherFiles } from './launcher.ts'
import { formatOverlayOptions, type Host, toFilterPath } from './machine.ts'

type BuiltInRequest = {
  dockerfile: Dockerfile
  context: string
  target: string | null
  args: Record<string, string>
  base: StoredImage
  key: string
}

/** Builds a simple Dockerfile without buildah. Throws SandboxUnsupported, with the line, for other features. */
export async function buildBuiltIn(host: Host, request: BuiltInRequest, options: BuiltInOptions): Promise<StoredImage> {
  const stage = requireSingleStage(request.dockerfile, request.target)
  stage.instructions.forEach(refuseUnsupported)
  await refuseIgnoreFile(request.context)
  const draft = await createDraftPath()
  const folder = join(host.store.folder, draft)
  options.layers.push(join(folder, 'upper'))
  for (const name of ['upper', 'work', 'root']) await mkdir(join(folder, name), { recursive: true, mode: 0o755 })
  const { rootless } = host
  const namespaceProcess = await startNamespaceProcess({
    rootless,
    copyMountsOf: undefined,
    cwd: '/',
    network: 'isolated',
  })
  const stop = (): void => void namespaceProcess.kill()
  options.signal.addEventListener('abort', stop)
  const hasRunInstruction = stage.instructions.some(({ keyword }) => keyword === 'RUN')
  let network: LocalBuildNetwork | undefined
  try {
    const { context } = request
    const { base, doneCount } = await chooseCachedPrefix(host.store, request, stage)
    await mountDraft(host, namespaceProcess, base, draft)
    if (hasRunInstruction) network = await openBuildNetwork(namespaceProcess, { ...options, rootless })
    const { env, workdir, user, entrypoint, command } = base
    const state: BuildState = {
      ...options,
      host,
      namespaceProcess,
      context,
      base,
      env: { ...env },
      workdir,
      user,
      entrypoint,
      command,
      root: join(folder, 'root'),
      buildArgs: request.args,
      args: { ...toGlobalArgs(request.dockerfile), ...request.args },
      proxy: network?.env ?? {},
    }
    for (const [index, instruction] of stage.instructions.entries())
      if (index >= doneCount || instruction.keyword === 'ARG') await executeInstruction(state, instruction)
    await namespaceProcess.end()
    const image = await saveLayer(host, state, request.key, folder)
    const prefixKey = await hashPrefix(request, stage.instructions)
    if (prefixKey !== undefined) await saveBuild(host.store, prefixKey, image)
    return image
  } finally {
    options.signal.removeEventListener('abort', stop)
    network?.close()
    await namespaceProcess.end()
    await rm(folder, { recursive: true, force: true })
  }
}

/**
 * Finds a stored image, of any Dockerfile, that was built with as many of the first instructions as possible. `doneCount`:
 * the number of these instructions.
 */
async function chooseCachedPrefix(
  store: ImageStore,
  request: BuiltInRequest,
  { instructions }: DockerfileStage,
): Promise<{ base: StoredImage; doneCount: number }> {
  for (let doneCount = instructions.length - 1; doneCount > 0; doneCount -= 1) {
    const key = await hashPrefix(request, instructions.slice(0, doneCount))
    const base = key === undefined ? undefined : await findBuild(store, key).catch(() => undefined)
    if (base) return { base, doneCount }
  }
  return { base: request.base, doneCount: 0 }
}

/** Hashes everything that instructions depend on. Returns undefined if they copy files whose names contain variables. */
async function hashPrefix(
  { base, args, context, dockerfile }: BuiltInRequest,
  instructions: readonly DockerfileInstruction[],
): Promise<string | undefined> {
  const copied = instructions.filter(({ keyword }) => keyword === 'COPY')
  const sources = copied.flatMap(({ exec, text }) => (exec ?? text.trim().split(/\s+/)).slice(0, -1))
  if (sources.some((source) => source.includes('$'))) return undefined
  const digests: string[] = []
  for (const source of sources) {
    const found = await findInside(context, source)
    if (!found) return undefined
    digests.push(await computeTreeDigest(found.path))
  }
  const texts = instructions.map(({ keyword, flags, text, exec }) => [keyword, flags, text, exec])
  const parts = ['beginning', base.digest, args, toGlobalArgs(dockerfile), texts, digests]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

async function mountDraft(
  host: Host,
  namespaceProcess: NamespaceProcess,
  base: StoredImage,
  draft: string,
): Promise<void> {
  const layers = `lowerdir=${base.layers.join(':')},upperdir=${draft}/upper,workdir=${draft}/work`
  const mount = renderCommand(
    'mount',
    '-t',
    'overlay',
    'overlay',
    '-o',
    `${layers},${formatOverlayOptions(host.rootless)}`,
    `${draft}/root`,
  )
  await namespaceProcess.runOrThrow(
    'Mounting the files of a build',
    `${renderCommand('cd', host.store.folder)} && ${mount}`,
  )
}

/** Moves the files that the build changed into the store, and saves the image. */
async function saveLayer(
  { store }: Host,
  { base, env, workdir, user, entrypoint, command }: BuildState,
  key: string,
  folder: string,
): Promise<StoredImage> {
  const layer = join('layers', key.slice(0, 24))
  await rm(join(store.folder, layer), { recursive: true, force: true })
  await rename(join(folder, 'upper'), join(store.folder, layer))
  return saveImage(store, { ...base, layers: [layer, ...base.layers], env, workdir, user, entrypoint, command })
}

function requireSingleStage({ stages }: Dockerfile, target: string | null): DockerfileStage {
  const [stage, second] = stages
  if (!stage) throw new SandboxUnsupported('The Dockerfile has no FROM.')
  if (second) throw new SandboxUnsupported(`Line ${second.line} of the Dockerfile: a second FROM needs buildah.`)
  if (target !== null && target !== stage.name) throw new SandboxUnsupported(`The Dockerfile has no stage ${target}.`)
  return stage
}

const toGlobalArgs = ({ globals }: Dockerfile): Record<string, string> =>
  Object.fromEntries(globals.flatMap(({ pairs }) => pairs.map(({ name, value }) => [name, value ?? ''])))

/** Supported instructions, each with its supported flags. */
const SUPPORTED_FLAGS: Record<string, string[]> = {
  ARG: [],
  ENV: [],
  WORKDIR: [],
  COPY: ['chown'],
  RUN: [],
  USER: [],
  CMD: [],
  ENTRYPOINT: [],
  // The following instructions only describe an image.
  LABEL: [],
  EXPOSE: [],
  MAINTAINER: [],
  STOPSIGNAL: [],
}

function refuseUnsupported({ keyword, line, flags, heredocs }: DockerfileInstruction): void {
  const unsupported = (feature: string) =>
    new SandboxUnsupported(`Line ${line} of the Dockerfile: ${feature} needs buildah.`)
  const supported = SUPPORTED_FLAGS[keyword]
  if (supported === undefined) throw unsupported(keyword)
  const flag = flags.find(({ name }) => !supported.includes(name))
  if (flag) throw unsupported(`${keyword} --${flag.name}`)
  if (heredocs.length > 0) throw unsupported(`${keyword} <<`)
}

async function refuseIgnoreFile(context: string): Promise<void> {
  const exists = await access(join(context, '.dockerignore')).then(
    () => true,
    () => false,
  )
  if (exists) throw new SandboxUnsupported('A .dockerignore needs buildah.')
}

async function executeInstruction(state: BuildState, instruction: DockerfileInstruction): Promise<void> {
  const { keyword, pairs, text, line } = instruction
  state.signal.throwIfAborted()
  state.onLog(`${keyword} ${text}`)
  switch (keyword) {
    case 'ARG':
      for (const { name, value } of pairs)
        state.args[name] = state.buildArgs[name] ?? (value === null ? (state.args[name] ?? '') : expand(state, value))
      return
    case 'ENV':
      Object.assign(state.env, Object.fromEntries(pairs.map(({ name, value }) => [name, expand(state, value ?? '')])))
      return
    case 'WORKDIR':
      state.workdir = posix.resolve(state.workdir, expand(state, text.trim()))
      return copySources(state, { sources: [], target: `${state.workdir}/`, owner: undefined, line })
    case 'USER':
      state.user = expand(state, text.trim())
      return
    case 'COPY':
      return copySources(state, parseCopy(state, instruction))
    case 'RUN':
      return runCommand(state, instruction)
    case 'CMD':
      state.command = toCommand(instruction)
      return
    case 'ENTRYPOINT':
      // A command of the base image belonged to the base image's entrypoint.
      if (state.command === state.base.command) state.command = []
      state.entrypoint = toCommand(instruction)
      return
    default: // The other supported instructions only describe the image.
  }
}

const toCommand = ({ exec, text }: DockerfileInstruction): string[] => exec ?? ['/bin/sh', '-c', text]

/** A target that must be a folder: one that ends with a slash, or whose last part is a dot. */
const FOLDER_TARGET = /\/$|^\.$|\/\.$/

function parseCopy(state: BuildState, { text, exec, flags, line }: DockerfileInstruction) {
  const words = (exec ?? text.trim().split(/\s+/)).map((word) => expand(state, word))
  const target = words.pop()
  if (target === undefined || words.length === 0)
    throw new SandboxUnavailable(`Line ${line} of the Dockerfile: COPY needs a source and a target.`)
  const pattern = words.find((word) => /[*?[]/.test(word))
  if (pattern) throw new SandboxUnsupported(`Line ${line} of the Dockerfile: the pattern ${pattern} needs buildah.`)
  const chown = flags.find(({ name }) => name === 'chown')?.value
  const joined = posix.resolve(state.workdir, target)
  return {
    sources: words,
    target: FOLDER_TARGET.test(target) || words.length > 1 ? `${joined}/` : joined,
    owner: chown ? expand(state, chown) : undefined,
    line,
  }
}

/** An escaped dollar sign, or a variable: `${NAME}`, `${NAME:-other}`, `${NAME:+other}` or `$NAME`. */
const VARIABLE = /\\(\$)|\$(?:\{(\w+)(?::([-+])([^}]*))?\}|(\w+))/g

/** Expands `$NAME`, `${NAME}`, `${NAME:-other}` and `${NAME:+other}`. Values of ENV take precedence over ARG. */
function expand({ env, args }: BuildState, text: string): string {
  const find = (name: string): string => env[name] ?? args[name] ?? ''
  return text.replaceAll(VARIABLE, (_, escaped, name, sign, other, bare) => {
    if (escaped) return '$'
    const value = find(name ?? bare)
    if (sign === '-' && value === '') return other
    return sign === '+' && value !== '' ? other : value
  })
}

/** Files to copy. A target that ends with / is a folder. */
type CopyRequest = { sources: string[]; target: string; owner: string | undefined; line: number }

async function copySources(state: BuildState, request: CopyRequest): Promise<void> {
  const { namespaceProcess, root } = state
  const { target, sources, line } = request
  const visibleRoot = join(namespaceProcess.root, root)
  await refuseLinks(visibleRoot, target)
  const isFolder = target.endsWith('/') || (await findInside(visibleRoot, target))?.stats.isDirectory() === true
  const folder = isFolder ? target : posix.dirname(target)
  await namespaceProcess.runOrThrow(
    `Line ${line} of the Dockerfile: ${target}`,
    renderCommand('mkdir', '-p', '-m', '755', '--', join(root, folder)),
  )
  for (const source of sources) await copySource(state, request, source, isFolder)
}

async function copySource(state: BuildState, request: CopyRequest, source: string, isFolder: boolean): Promise<void> {
  const { namespaceProcess, root, context } = state
  const { target, owner, line } = request
  const visibleRoot = join(namespaceProcess.root, root)
  const found = await findInside(context, source)
  if (!found) throw new SandboxUnavailable(`Line ${line} of the Dockerfile: ${source} not found.`)
  // The contents of a folder are copied, not the folder.
  const destination = found.stats.isDirectory() || !isFolder ? target : join(target, posix.basename(source))
  await refuseLinks(visibleRoot, destination)
  // --remove-destination keeps cp from writing to files of this machine through links that an earlier RUN created.
  const args = ['cp', '-a', '--no-preserve=ownership', '--remove-destination', '-T', '--']
  const copy = renderCommand(...args, found.path, join(root, destination))
  const steps = [copy]
  if (owner !== undefined)
    steps.push(renderCommand(...(await buildChownArgs(visibleRoot, owner)), join(root, destination)))
  await namespaceProcess.runOrThrow(`Line ${line} of the Dockerfile: COPY`, steps.join(' && '))
}

async function buildChownArgs(root: string, owner: string): Promise<string[]> {
  const { uid, gid } = await resolveSandboxAccount(root, owner)
  return ['chown', '-R', '-h', `${uid}:${gid}`, '--']
}

/** Capabilities of RUN. An agent has fewer: installing packages sets file capabilities and uses chroot. */
const BUILD_CAPABILITIES = [...CAPABILITIES, 'SETFCAP', 'SYS_CHROOT']

/** Number of characters of a command's output that its error quotes. */
const OUTPUT_SHOWN_CHARACTERS = 2000

/** Executes RUN in its own namespaces, with the network of the build. */
async function runCommand(state: BuildState, { text, exec, line }: DockerfileInstruction): Promise<void> {
  const { host, namespaceProcess, root, base, workdir, onLog } = state
  const visibleRoot = join(namespaceProcess.root, root)
  const mountPoints = ['/proc', '/dev', ...(base.binds ?? [])]
  for (const path of mountPoints) await refuseLinks(visibleRoot, path)
  const found = await resolveSandboxAccount(visibleRoot, state.user || 'root')
  const account = host.rootless ? asOrdinaryUser(found, state.user) : found
  const env = { HOME: account.home, ...state.args, ...state.env, ...state.proxy }
  const args = [
    ...['bwrap', '--bind', root, '/', '--proc', '/proc', '--dev', '/dev', '--ro-bind', '/proc/sys', '/proc/sys'],
    ...buildShmArgs(DEFAULT_LIMITS.shmMb),
    ...(base.binds ?? []).flatMap((path) => ['--ro-bind', path, path]),
    ...listHidden(base.binds ?? []).flatMap((path) => ['--perms', '0755', '--tmpfs', path, '--remount-ro', path]),
    ...(await buildResolverArgs(visibleRoot)),
    ...listLauncherFiles(host.launcher).flatMap(({ source, target }) => ['--ro-bind', source, target]),
    ...['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--die-with-parent', '--new-session', '--clearenv'],
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
    ...['--cap-drop', 'ALL', ...[...BUILD_CAPABILITIES, 'SETPCAP'].flatMap((name) => ['--cap-add', `CAP_${name}`])],
    ...['--seccomp', String(FILTER_FD), '--chdir', workdir, '--'],
    ...buildLauncherArgs(host.launcher, account, BUILD_CAPABILITIES),
    ...(exec ?? ['/bin/sh', '-c', text]),
  ]
  const { code, text: output } = await namespaceProcess.run(
    `${host.rootless ? '' : SEAL_PROGRAM}( ${state.cgroupPrefix}exec ${renderCommand(...args)} ${FILTER_FD}< ${quote(toFilterPath(host.store))} )`,
  )
  for (const logLine of output.split('\n').filter(Boolean)) onLog(logLine)
  if (code === 0) return
  throw new SandboxUnavailable(
    `Line ${line} of the Dockerfile: RUN ended with ${code}:\n${output.slice(-OUTPUT_SHOWN_CHARACTERS)}`,
  )
}

const RESOLVER = '/etc/resolv.conf'

/** Mounts the resolver configuration, but not over a link: bubblewrap would create the link's target on this machine. */
const buildResolverArgs = async (root: string): Promise<string[]> =>
  (await findInside(root, RESOLVER))?.stats.isFile() ? ['--ro-bind-try', RESOLVER, RESOLVER] : []

type BuiltInOptions = PrepareOptions & {
  /** Shell code before a command that moves it into the cgroup of the build: empty, or ends with `&&`. */
  cgroupPrefix: string
  /** Hosts that the build may reach besides public ones. */
  buildHosts: readonly AllowedHost[]
  /** Folders whose disk usage is watched. The build adds its own. */
  layers: string[]
}

/** A running build. All its changes go into one layer. */
type BuildState = BuiltInOptions & {
  host: Host
  namespaceProcess: NamespaceProcess
  context: string
  base: StoredImage
  /** Mount point of the image's files, in the mount namespace of `namespaceProcess`. */
  root: string
  env: Record<string, string>
  /** Values from the request, which take precedence over defaults of ARG. */
  buildArgs: Record<string, string>
  /** Values of ARG: visible to RUN, not stored in the image. */
  args: Record<string, string>
  /** Proxy settings for RUN, which do not become part of the image. */
  proxy: Record<string, string>
  workdir: string
  user: string
  entrypoint: string[]
  command: string[]
}
