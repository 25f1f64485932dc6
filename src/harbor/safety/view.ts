import { parseDockerfile } from '../dockerfile.ts'
import { isTable, type Value } from '../fields.ts'
import { newReport } from '../report.ts'
import type { Outline } from '../resolve.ts'
import type { SourceFile } from '../source.ts'
import type { Environment, Finding as Refusal } from '../task.ts'
import { parseYaml } from '../yaml-value.ts'
import { type Command, commandsOf } from './commands.ts'
import type { Caps, SandboxAbilities } from './options.ts'
import type { ScannedFile, TextFile, UsedCompose, UsedDockerfile } from './task-parts.ts'

/** All that was read of a task. */
export type Gathered = {
  /** Undefined when task.toml is none. */
  outline: Outline | undefined
  files: SourceFile[]
  /** What the reader of tasks refuses. */
  refusals: Refusal[]
  /** Findings of the reader of tasks that do not refuse the task. */
  warnings: Refusal[]
  scanned: ScannedFile[]
}

/** What a rule may know of a task. Each part is made when a rule first asks for it, and once. */
export type View = {
  files: SourceFile[]
  refusals: Refusal[]
  warnings: Refusal[]
  outline: Outline | undefined
  /** The environments of the agent and of verifiers. */
  environments: Environment[]
  caps: Caps
  sandbox: SandboxAbilities | undefined
  scanned: Map<string, ScannedFile>
  /** Files that are text, as far as they were read. */
  texts: TextFile[]
  instructions: TextFile[]
  dockerfiles: UsedDockerfile[]
  composes: UsedCompose[]
  /** What is run to build and to start the task. */
  commands: Command[]
}

export type ViewOptions = { caps: Caps; sandbox: SandboxAbilities | undefined }

export function viewOf(gathered: Gathered, options: ViewOptions): View {
  const { files, refusals, warnings, outline } = gathered
  const scanned = new Map(gathered.scanned.map((file) => [file.path, file]))
  const texts = once(() => gathered.scanned.flatMap(textOf))
  const byPath = once(() => new Map(texts().map(({ path, text }) => [path, text])))
  const textAt = (path: string) => byPath().get(path)
  const environments = once(() => environmentsOf(outline))
  const composes = once(() => environments().flatMap(({ folder }) => composeIn(folder, textAt)))
  const dockerfiles = once(() => dockerfilesOf(environments(), composes(), textAt))
  const commands = once(() => commandsOf(dockerfiles(), composes(), outline))
  return {
    files,
    refusals,
    warnings,
    outline,
    ...options,
    scanned,
    get environments() {
      return environments()
    },
    get texts() {
      return texts()
    },
    get instructions() {
      return texts().filter(({ path }) => /^(?:steps\/[^/]+\/)?instruction\.md$/.test(path))
    },
    get dockerfiles() {
      return dockerfiles()
    },
    get composes() {
      return composes()
    },
    get commands() {
      return commands()
    },
  }
}

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** Bytes that are no text must not hide the text around them: shells read on after a NUL, as if there were none. */
function textOf({ path, bytes, isWhole }: ScannedFile): TextFile[] {
  const hasNul = bytes.subarray(0, LOOK_BYTES).includes(0)
  if (hasNul && !WRITTEN.test(path) && !bytes.subarray(0, 2).equals(SCRIPT)) return []
  const text = decoder.decode(bytes)
  return [{ path, text: hasNul ? text.replaceAll('\0', '') : text, isWhole }]
}

/** A NUL near the start is how git tells a binary file. */
const LOOK_BYTES = 8192
const SCRIPT = Buffer.from('#!')
/** What is run or read as text by its name. */
const WRITTEN =
  /(?:^|\/)[^/]*(?:dockerfile[^/]*|makefile|\.(?:sh|bash|py|pl|rb|php|[cm]?[jt]s|ya?ml|toml|json|md|txt|cfg|ini|conf|env))$/i

/** Each folder once. A verifier without an image of its own has the agent's. */
function environmentsOf(outline: Outline | undefined): Environment[] {
  if (!outline) return []
  const verifiers = outline.steps.flatMap(({ verifier: { place } }) =>
    place.mode === 'separate' ? [place.environment] : [],
  )
  return [...new Map([...verifiers, outline.environment].map((each) => [each.folder, each])).values()]
}

function composeIn(folder: string, textAt: (path: string) => string | undefined): UsedCompose[] {
  const path = `${folder}/docker-compose.yaml`
  const text = textAt(path)
  const table = text === undefined ? undefined : parseYaml(text, path, newReport())
  return isTable(table) ? [{ path, folder, table }] : []
}

type Place = { path: string; context: string; isForAgent: boolean }

function dockerfilesOf(
  environments: Environment[],
  composes: UsedCompose[],
  textAt: (path: string) => string | undefined,
): UsedDockerfile[] {
  const own = environments.map(({ folder }) => ({ path: `${folder}/Dockerfile`, context: folder }))
  const places = [...own, ...composes.flatMap(buildsOf)].map((place) => ({
    ...place,
    isForAgent: place.path.startsWith('environment/'),
  }))
  return [...new Map(places.map((place) => [place.path, place])).values()].flatMap((place) => parsed(place, textAt))
}

function parsed(place: Place, textAt: (path: string) => string | undefined): UsedDockerfile[] {
  const text = textAt(place.path)
  if (text === undefined) return []
  const plain = text.replaceAll(/\r\n?/g, '\n')
  return [{ ...place, text: plain, dockerfile: parseDockerfile(plain, place.path, newReport()) }]
}

/** The Dockerfiles that services are built from. */
function buildsOf({ folder, table }: UsedCompose): { path: string; context: string }[] {
  const services = isTable(table.services) ? Object.values(table.services) : []
  return services.flatMap((service) => {
    const build = isTable(service) ? service.build : undefined
    if (build === undefined || build === null) return []
    const settings = isTable(build) ? build : { context: build }
    const context = joined(folder, textOr(settings.context, '.'))
    return [{ path: joined(context, textOr(settings.dockerfile, 'Dockerfile')), context }]
  })
}

const textOr = (value: Value | undefined, otherwise: string): string =>
  typeof value === 'string' && value !== '' && !value.startsWith('$') ? value : otherwise

const joined = (folder: string, path: string): string =>
  [folder, ...path.split('/')].filter((part) => part !== '' && part !== '.').join('/')
