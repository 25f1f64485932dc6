import { access, mkdir, rename, rm } from 'node:fs/promises'
import { join, posix } from 'node:path'
import type { Dockerfile, DockerfileInstruction, DockerfileStage } from '../../harbor/dockerfile.ts'
import { type NamespaceProcess, startNamespaceProcess } from '../kernel/namespace-process.ts'
import { SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import { type LocalBuildNetwork, openBuildNetwork } from './build-network.ts'
import type { Building, BuildingOptions } from './building.ts'
import { copyInto } from './built-in-copy.ts'
import { runCommand } from './built-in-run.ts'
import { newDraft, type StoredImage, saveImage } from './image-store.ts'
import { type Host, overlayOptions } from './machine.ts'
import { line } from './shell.ts'

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
