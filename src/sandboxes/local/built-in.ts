import { access, mkdir, rename, rm } from 'node:fs/promises'
import { join, posix } from 'node:path'
import type { Dockerfile, DockerfileInstruction, DockerfileStage } from '../../harbor/dockerfile.ts'
import { DEFAULT_LIMITS } from '../../harbor/limits.ts'
import type { AllowedHost } from '../egress/rules.ts'
import { CAPABILITIES } from '../kernel/agent-rights.ts'
import { findInside } from '../kernel/inside.ts'
import { type NamespaceProcess, startNamespaceProcess } from '../kernel/namespace-process.ts'
import { type PrepareOptions, SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import { asOrdinaryUser, findAccount } from './account.ts'
import { type LocalBuildNetwork, openBuildNetwork } from './build-network.ts'
import { FILTER_FD, SEAL, shmWords } from './bwrap.ts'
import { refuseLinks } from './files.ts'
import { newDraft, type StoredImage, saveImage } from './image-store.ts'
import { launcherFiles, launcherWords } from './launcher.ts'
import { filterPath, type Host, overlayOptions } from './machine.ts'
import { line, quote } from './shell.ts'

export type BuiltInRequest = {
  dockerfile: Dockerfile
  context: string
  target: string | null
  args: Record<string, string>
  base: StoredImage
  key: string
}

/** Builds a simple Dockerfile without other programs. What it does not know it refuses by name and line. */
export async function buildBuiltIn(
  host: Host,
  request: BuiltInRequest,
  options: BuildingOptions,
): Promise<StoredImage> {
  const stage = onlyStage(request.dockerfile, request.target)
  stage.instructions.forEach(refuseUnknown)
  await refuseIgnoreFile(request.context)
  const draft = await newDraft()
  const folder = join(host.store.folder, draft)
  options.layers.push(join(folder, 'upper'))
  for (const name of ['upper', 'work', 'root']) await mkdir(join(folder, name), { recursive: true, mode: 0o755 })
  const { rootless } = host
  const holder = await startNamespaceProcess({ rootless, beside: undefined, cwd: '/', network: 'alone' })
  const stop = (): void => void holder.kill()
  options.signal.addEventListener('abort', stop)
  const runs = stage.instructions.some(({ keyword }) => keyword === 'RUN')
  let network: LocalBuildNetwork | undefined
  try {
    const { base, context } = request
    await mountDraft(host, holder, base, draft)
    if (runs) network = await openBuildNetwork(holder, { ...options, rootless })
    const { env, workdir, user, entrypoint, command } = base
    const building: Building = {
      ...options,
      host,
      holder,
      context,
      base,
      env: { ...env },
      workdir,
      user,
      entrypoint,
      command,
      root: join(folder, 'root'),
      given: request.args,
      args: { ...globalsOf(request.dockerfile), ...request.args },
      proxy: network?.env ?? {},
    }
    for (const instruction of stage.instructions) await follow(building, instruction)
    await holder.end()
    return await keep(host, building, request.key, folder)
  } finally {
    options.signal.removeEventListener('abort', stop)
    network?.close()
    await holder.end()
    await rm(folder, { recursive: true, force: true })
  }
}

async function mountDraft(host: Host, holder: NamespaceProcess, base: StoredImage, draft: string): Promise<void> {
  const places = `lowerdir=${base.layers.join(':')},upperdir=${draft}/upper,workdir=${draft}/work`
  const mount = line(
    'mount',
    '-t',
    'overlay',
    'overlay',
    '-o',
    `${places},${overlayOptions(host.rootless)}`,
    `${draft}/root`,
  )
  await holder.runOrThrow('Mounting the files of a build', `${line('cd', host.store.folder)} && ${mount}`)
}

async function keep(
  { store }: Host,
  { base, env, workdir, user, entrypoint, command }: Building,
  key: string,
  folder: string,
): Promise<StoredImage> {
  const layer = join('layers', key.slice(0, 24))
  await rm(join(store.folder, layer), { recursive: true, force: true })
  await rename(join(folder, 'upper'), join(store.folder, layer))
  return saveImage(store, { ...base, layers: [layer, ...base.layers], env, workdir, user, entrypoint, command })
}

function onlyStage({ stages }: Dockerfile, target: string | null): DockerfileStage {
  const [stage, second] = stages
  if (!stage) throw new SandboxUnsupported('The Dockerfile has no FROM.')
  if (second) throw new SandboxUnsupported(`Line ${second.line} of the Dockerfile: a second FROM needs buildah.`)
  if (target !== null && target !== stage.name) throw new SandboxUnsupported(`The Dockerfile has no stage ${target}.`)
  return stage
}

const globalsOf = ({ globals }: Dockerfile): Record<string, string> =>
  Object.fromEntries(globals.flatMap(({ pairs }) => pairs.map(({ name, value }) => [name, value ?? ''])))

/** Which flags each instruction may have. */
const KNOWN: Record<string, string[]> = {
  ARG: [],
  ENV: [],
  WORKDIR: [],
  COPY: ['chown'],
  RUN: [],
  USER: [],
  CMD: [],
  ENTRYPOINT: [],
  // These instructions only describe an image.
  LABEL: [],
  EXPOSE: [],
  MAINTAINER: [],
  STOPSIGNAL: [],
}

function refuseUnknown({ keyword, line: number, flags, heredocs }: DockerfileInstruction): void {
  const known = KNOWN[keyword]
  const flag = flags.find(({ name }) => !known?.includes(name))
  const what =
    known === undefined ? keyword : flag ? `${keyword} --${flag.name}` : heredocs.length > 0 ? `${keyword} <<` : ''
  if (what !== '') throw new SandboxUnsupported(`Line ${number} of the Dockerfile: ${what} needs buildah.`)
}

async function refuseIgnoreFile(context: string): Promise<void> {
  const there = await access(join(context, '.dockerignore')).then(
    () => true,
    () => false,
  )
  if (there) throw new SandboxUnsupported('A .dockerignore needs buildah.')
}

async function follow(building: Building, instruction: DockerfileInstruction): Promise<void> {
  const { keyword, pairs, text, line: number } = instruction
  building.signal.throwIfAborted()
  building.onLog(`${keyword} ${text}`)
  switch (keyword) {
    case 'ARG':
      for (const { name, value } of pairs)
        building.args[name] =
          building.given[name] ?? (value === null ? (building.args[name] ?? '') : expand(building, value))
      return
    case 'ENV':
      Object.assign(
        building.env,
        Object.fromEntries(pairs.map(({ name, value }) => [name, expand(building, value ?? '')])),
      )
      return
    case 'WORKDIR':
      building.workdir = posix.resolve(building.workdir, expand(building, text.trim()))
      return copyInto(building, { sources: [], target: `${building.workdir}/`, owner: undefined, line: number })
    case 'USER':
      building.user = expand(building, text.trim())
      return
    case 'COPY':
      return copyInto(building, copyOf(building, instruction))
    case 'RUN':
      return runCommand(building, instruction)
    case 'CMD':
      building.command = wordsOf(instruction)
      return
    case 'ENTRYPOINT':
      // A command of the base image belonged to the base image's entrypoint.
      if (building.command === building.base.command) building.command = []
      building.entrypoint = wordsOf(instruction)
      return
    default:
  }
}

const wordsOf = ({ exec, text }: DockerfileInstruction): string[] => exec ?? ['/bin/sh', '-c', text]

function copyOf(building: Building, { text, exec, flags, line: number }: DockerfileInstruction) {
  const words = (exec ?? text.trim().split(/\s+/)).map((word) => expand(building, word))
  const target = words.pop()
  if (target === undefined || words.length === 0) throw new SandboxUnavailable(`Line ${number}: COPY needs two paths.`)
  const wild = words.find((word) => /[*?[]/.test(word))
  if (wild) throw new SandboxUnsupported(`Line ${number} of the Dockerfile: the pattern ${wild} needs buildah.`)
  const chown = flags.find(({ name }) => name === 'chown')?.value
  const joined = posix.resolve(building.workdir, target)
  return {
    sources: words,
    target: /\/$|^\.$|\/\.$/.test(target) || words.length > 1 ? `${joined}/` : joined,
    owner: chown ? expand(building, chown) : undefined,
    line: number,
  }
}

/** `$NAME`, `${NAME}`, `${NAME:-other}` and `${NAME:+other}`; what is defined by ENV wins over ARG. */
function expand({ env, args }: Building, text: string): string {
  const find = (name: string): string => env[name] ?? args[name] ?? ''
  return text.replaceAll(/\\(\$)|\$(?:\{(\w+)(?::([-+])([^}]*))?\}|(\w+))/g, (_, escaped, name, sign, other, bare) => {
    if (escaped) return '$'
    const value = find(name ?? bare)
    if (sign === '-') return value || other
    return sign === '+' ? value && other : value
  })
}

/** A target that ends with / is a folder. */
type CopyRequest = { sources: string[]; target: string; owner: string | undefined; line: number }

async function copyInto(building: Building, request: CopyRequest): Promise<void> {
  const { holder, root } = building
  const { target, sources, line: number } = request
  const seen = join(holder.root, root)
  await refuseLinks(seen, target)
  const into = target.endsWith('/') || (await findInside(seen, target))?.stats.isDirectory() === true
  const folder = into ? target : posix.dirname(target)
  await holder.runOrThrow(`Line ${number}`, line('mkdir', '-p', '-m', '755', '--', join(root, folder)))
  for (const source of sources) await copyOne(building, request, source, into)
}

async function copyOne(building: Building, request: CopyRequest, source: string, into: boolean): Promise<void> {
  const { holder, root, context } = building
  const { target, owner, line: number } = request
  const seen = join(holder.root, root)
  const found = await findInside(context, source)
  if (!found) throw new SandboxUnavailable(`Line ${number} of the Dockerfile: there is no ${source}.`)
  // The contents of a folder are copied, not the folder.
  const place = found.stats.isDirectory() || !into ? target : join(target, posix.basename(source))
  await refuseLinks(seen, place)
  // A link that a command has put below the target would be written through, to a file of this machine.
  const words = ['cp', '-a', '--no-preserve=ownership', '--remove-destination', '-T', '--']
  const copy = line(...words, found.path, join(root, place))
  const give = owner === undefined ? '' : ` && ${line(...(await ownerWords(seen, owner)), join(root, place))}`
  await holder.runOrThrow(`Line ${number}: COPY`, `${copy}${give}`)
}

async function ownerWords(root: string, owner: string): Promise<string[]> {
  const { uid, gid } = await findAccount(root, owner)
  return ['chown', '-R', '-h', `${uid}:${gid}`, '--']
}

/** More than an agent may: packages bring files with capabilities of their own. */
const BUILD_CAPABILITIES = [...CAPABILITIES, 'SETFCAP', 'SYS_CHROOT']

const LAST_LETTERS = 2000

/** Runs a command of the build in namespaces of its own, with the network of the holder. */
async function runCommand(building: Building, { text, exec, line: number }: DockerfileInstruction): Promise<void> {
  const { host, holder, root, base, workdir, onLog } = building
  const seen = join(holder.root, root)
  const places = ['/proc', '/dev', ...(base.binds ?? [])]
  for (const path of places) await refuseLinks(seen, path)
  const found = await findAccount(seen, building.user || 'root')
  const account = host.rootless ? asOrdinaryUser(found, building.user) : found
  const env = { HOME: account.home, ...building.args, ...building.env, ...building.proxy }
  const words = [
    ...['bwrap', '--bind', root, '/', '--proc', '/proc', '--dev', '/dev', '--ro-bind', '/proc/sys', '/proc/sys'],
    ...shmWords(DEFAULT_LIMITS.shmMb),
    ...(base.binds ?? []).flatMap((path) => ['--ro-bind', path, path]),
    ...(await resolverOf(seen)),
    ...launcherFiles(host.launcher).flatMap(({ source, target }) => ['--ro-bind', source, target]),
    ...['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--die-with-parent', '--new-session', '--clearenv'],
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
    ...['--cap-drop', 'ALL', ...[...BUILD_CAPABILITIES, 'SETPCAP'].flatMap((name) => ['--cap-add', `CAP_${name}`])],
    ...['--seccomp', String(FILTER_FD), '--chdir', workdir, '--'],
    ...launcherWords(host.launcher, account, BUILD_CAPABILITIES),
    ...(exec ?? ['/bin/sh', '-c', text]),
  ]
  const { code, text: output } = await holder.run(
    `${host.rootless ? '' : SEAL}( ${building.entering}exec ${line(...words)} ${FILTER_FD}< ${quote(filterPath(host.store))} )`,
  )
  for (const said of output.split('\n').filter(Boolean)) onLog(said)
  if (code === 0) return
  throw new SandboxUnavailable(
    `Line ${number} of the Dockerfile: RUN ended with ${code}:\n${output.slice(-LAST_LETTERS)}`,
  )
}

const RESOLVER = '/etc/resolv.conf'

/** Only over a file that is one: bubblewrap goes through a link, and makes what it leads to on this machine. */
const resolverOf = async (root: string): Promise<string[]> =>
  (await findInside(root, RESOLVER))?.stats.isFile() ? ['--ro-bind-try', RESOLVER, RESOLVER] : []

/**
 * `entering` is a line of shell that puts a command where it is limited; `buildHosts` it may reach besides public ones. The
 * disk of `layers` is watched.
 */
type BuildingOptions = PrepareOptions & {
  entering: string
  buildHosts: readonly AllowedHost[]
  layers: string[]
}

/** A build at work. What it changes goes into one layer. */
type Building = BuildingOptions & {
  host: Host
  holder: NamespaceProcess
  context: string
  base: StoredImage
  /** Mount point of the files. */
  root: string
  env: Record<string, string>
  /** Win over what ARG says. */
  given: Record<string, string>
  /** Values of ARG: seen by RUN, not kept. */
  args: Record<string, string>
  /** Proxy settings for RUN, which do not become part of the image. */
  proxy: Record<string, string>
  workdir: string
  user: string
  entrypoint: string[]
  command: string[]
}
