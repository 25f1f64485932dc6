import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { type Dockerfile, type DockerfileInstruction, parseDockerfile } from '../dockerfile.ts'
import { isTable, type Value, type ValueTable } from '../fields.ts'
import { createReport } from '../report.ts'
import type { TaskOutline } from '../resolve.ts'
import type { SourceFile } from '../source.ts'
import type { Environment, TaskFinding } from '../task.ts'
import { parseYaml } from '../yaml-value.ts'

/** Everything that was read of a task. */
export type TaskContents = {
  /** Undefined if task.toml is invalid. */
  outline: TaskOutline | undefined
  files: SourceFile[]
  /** Findings of the task reader that refuse the task. */
  refusals: TaskFinding[]
  /** Findings of the task reader that do not refuse the task. */
  warnings: TaskFinding[]
  scanned: ScannedFile[]
}

/** Input of the rules. Each part is computed once, on first access. */
export type TaskView = {
  files: SourceFile[]
  refusals: TaskFinding[]
  warnings: TaskFinding[]
  outline: TaskOutline | undefined
  /** Environments of the agent and of separate verifiers. */
  environments: Environment[]
  /** Hosts of private networks that the operator allows as registries of images. */
  buildHosts: readonly AllowedHost[]
  scanned: Map<string, ScannedFile>
  /** Text files, up to the scan limit. */
  texts: TextFile[]
  instructions: TextFile[]
  dockerfiles: UsedDockerfile[]
  composes: UsedCompose[]
  /** Commands that run when the task is built or started. */
  commands: TaskCommand[]
}

export function createView(contents: TaskContents, buildHosts: readonly AllowedHost[]): TaskView {
  const { files, refusals, warnings, outline } = contents
  const scanned = new Map(contents.scanned.map((file) => [file.path, file]))
  const texts = lazy(() => contents.scanned.flatMap(toTextFile))
  const byPath = lazy(() => new Map(texts().map(({ path, text }) => [path, text])))
  const textAt = (path: string) => byPath().get(path)
  const environments = lazy(() => listEnvironments(outline))
  const composes = lazy(() => environments().flatMap(({ folder }) => readCompose(folder, textAt)))
  const dockerfiles = lazy(() => readDockerfiles(environments(), composes(), textAt))
  const commands = lazy(() => listCommands(dockerfiles(), composes(), outline))
  return {
    files,
    refusals,
    warnings,
    outline,
    buildHosts,
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

function lazy<T>(compute: () => T): () => T {
  let computed: { value: T } | undefined
  return () => {
    computed ??= { value: compute() }
    return computed.value
  }
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** Decodes a text file. NUL bytes in scripts are dropped, because shells ignore them: they must not hide text. */
function toTextFile({ path, bytes, isWhole }: ScannedFile): TextFile[] {
  const hasNul = bytes.subarray(0, NUL_SEARCH_BYTES).includes(0)
  if (hasNul && !TEXT_NAMES.test(path) && !bytes.subarray(0, 2).equals(SCRIPT)) return []
  const text = decoder.decode(bytes)
  return [{ path, text: hasNul ? text.replaceAll('\0', '') : text, isWhole }]
}

/** Number of bytes that are searched for a NUL to recognise a binary file, as git does. */
const NUL_SEARCH_BYTES = 8192
const SCRIPT = Buffer.from('#!')
/** Names of files that are executed or read as text. */
const TEXT_NAMES =
  /(?:^|\/)[^/]*(?:dockerfile[^/]*|makefile|\.(?:sh|bash|py|pl|rb|php|[cm]?[jt]s|ya?ml|toml|json|md|txt|cfg|ini|conf|env))$/i

/** Lists environments, one per folder. A verifier without its own image shares that of the agent. */
function listEnvironments(outline: TaskOutline | undefined): Environment[] {
  if (!outline) return []
  const verifiers = outline.steps.flatMap(({ verifier: { sandbox } }) =>
    sandbox.mode === 'separate' ? [sandbox.environment] : [],
  )
  return [...new Map([...verifiers, outline.environment].map((each) => [each.folder, each])).values()]
}

function readCompose(folder: string, textAt: (path: string) => string | undefined): UsedCompose[] {
  const path = `${folder}/docker-compose.yaml`
  const text = textAt(path)
  const table = text === undefined ? undefined : parseYaml(text, path, createReport())
  return isTable(table) ? [{ path, folder, table }] : []
}

type DockerfileLocation = { path: string; context: string; isForAgent: boolean }

function readDockerfiles(
  environments: Environment[],
  composes: UsedCompose[],
  textAt: (path: string) => string | undefined,
): UsedDockerfile[] {
  const environmentFiles = environments.map(({ folder }) => ({ path: `${folder}/Dockerfile`, context: folder }))
  const locations = [...environmentFiles, ...composes.flatMap(listBuilds)].map((location) => ({
    ...location,
    isForAgent: location.path.startsWith('environment/'),
  }))
  return [...new Map(locations.map((location) => [location.path, location])).values()].flatMap((location) =>
    parseDockerfileAt(location, textAt),
  )
}

function parseDockerfileAt(
  location: DockerfileLocation,
  textAt: (path: string) => string | undefined,
): UsedDockerfile[] {
  const text = textAt(location.path)
  if (text === undefined) return []
  const normalised = text.replaceAll(/\r\n?/g, '\n')
  return [{ ...location, text: normalised, dockerfile: parseDockerfile(normalised, location.path, createReport()) }]
}

/** Lists the Dockerfiles of services. */
function listBuilds({ folder, table }: UsedCompose): { path: string; context: string }[] {
  const services = isTable(table.services) ? Object.values(table.services) : []
  return services.flatMap((service) => {
    const build = isTable(service) ? service.build : undefined
    if (build === undefined || build === null) return []
    const settings = isTable(build) ? build : { context: build }
    const context = joinPath(folder, toFixedText(settings.context, '.'))
    return [{ path: joinPath(context, toFixedText(settings.dockerfile, 'Dockerfile')), context }]
  })
}

/** Returns a text, or the fallback if it is missing or begins with a variable. */
const toFixedText = (value: Value | undefined, fallback: string): string =>
  typeof value === 'string' && value !== '' && !value.startsWith('$') ? value : fallback

const joinPath = (folder: string, path: string): string =>
  [folder, ...path.split('/')].filter((part) => part !== '' && part !== '.').join('/')

/** Memoizes a function of one object. */
export function memoize<K extends object, V>(compute: (key: K) => V): (key: K) => V {
  const computed = new WeakMap<K, { value: V }>()
  return (key) => {
    const known = computed.get(key) ?? { value: compute(key) }
    computed.set(key, known)
    return known.value
  }
}

/** A pipeline that runs while a task is built or started. Text that is only written to a file is not included. */
type TaskCommand = { path: string; line?: number; text: string }

const listCommands = (
  dockerfiles: UsedDockerfile[],
  composes: UsedCompose[],
  outline: TaskOutline | undefined,
): TaskCommand[] =>
  [
    ...dockerfiles.flatMap(listDockerfileCommands),
    ...composes.flatMap(listComposeCommands),
    ...listTomlCommands(outline),
  ].flatMap(listRunPipelines)

function listRunPipelines({ text, ...location }: TaskCommand): TaskCommand[] {
  return splitPipelines(text)
    .filter((pipeline) => !isTextOnly(pipeline))
    .map((pipeline) => ({ ...location, text: pipeline }))
}

const RUN_KEYWORDS = new Set(['RUN', 'CMD', 'ENTRYPOINT', 'HEALTHCHECK', 'ONBUILD', 'SHELL'])

const listDockerfileCommands = ({ path, dockerfile }: UsedDockerfile): TaskCommand[] =>
  dockerfile.stages
    .flatMap(({ instructions }) => instructions)
    .filter(({ keyword }) => RUN_KEYWORDS.has(keyword))
    .flatMap((instruction) => listTexts(instruction).map((text) => ({ path, line: instruction.line, text })))

/** Returns the executed texts. `RUN <<EOF` and `RUN bash <<EOF` execute the here-document; `RUN cat <<EOF` does not. */
function listTexts({ text, exec, heredocs }: DockerfileInstruction): string[] {
  const isRun = /^(?:<<|(?:\S*\/)?(?:ba|da|z)?sh\b|(?:\S*\/)?python\d?\b|(?:\S*\/)?perl\b)/.test(text)
  return [exec ? exec.join(' ') : text, ...(isRun ? heredocs.map(({ content }) => content) : [])]
}

function listComposeCommands({ path, table }: UsedCompose): TaskCommand[] {
  const services = isTable(table.services) ? Object.entries(table.services) : []
  return services.flatMap(([name, service]) => {
    if (!isTable(service)) return []
    const { command, entrypoint, healthcheck, post_start, pre_stop } = service
    const test = isTable(healthcheck) ? healthcheck.test : undefined
    const at = (key: string) => `${path}.services.${name}.${key}`
    return [
      { path: at('command'), text: joinTexts(command) },
      { path: at('entrypoint'), text: joinTexts(entrypoint) },
      { path: at('healthcheck'), text: joinTexts(test) },
      { path: at('post_start'), text: joinTexts(post_start) },
      { path: at('pre_stop'), text: joinTexts(pre_stop) },
    ]
  })
}

/** Joins all strings in a value with spaces. */
function joinTexts(value: Value | undefined): string {
  if (typeof value === 'string') return value
  if (Array.isArray(value)) return value.map(joinTexts).join(' ')
  return isTable(value) ? Object.values(value).map(joinTexts).join(' ') : ''
}

function listTomlCommands(outline: TaskOutline | undefined): TaskCommand[] {
  if (!outline) return []
  const { environment, steps } = outline
  const servers = environment.mcpServers.flatMap((server) =>
    server.transport === 'stdio' ? [[server.command, ...server.args].join(' ')] : [],
  )
  const checks = [environment.healthcheck, ...steps.map((step) => step.healthcheck)]
  const hooks = steps.flatMap(({ verifier }) => verifier.collect)
  return [...servers, ...[...checks, ...hooks].flatMap((each) => (each ? [each.command] : []))].map((text) => ({
    path: 'task.toml',
    text,
  }))
}

const TOKEN = /\\[\s\S]|"(?:[^"\\]|\\[\s\S])*"|'[^']*'|>&|&>|&&|\|\||[\s\S]/g
const ENDS = new Set(['\n', ';', '&', '&&', '||'])

/**
 * Splits shell text into pipelines, at line ends, `;`, `&`, `&&` and `||` outside quotation marks. This is an approximation
 * that is sufficient for the rules, not a shell parser.
 */
export function splitPipelines(text: string): string[] {
  const pipelines: string[] = []
  let start = 0
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (!ENDS.has(token)) continue
    pipelines.push(text.slice(start, index))
    start = index + token.length
  }
  return [...pipelines, text.slice(start)].map((piece) => piece.trim()).filter((piece) => piece !== '')
}

const WRITES =
  /^(?:[({]\s*|!\s+)?(?:sudo\s+)?(?:echo|printf|cat|tee|grep|egrep|sed|awk|touch|mkdir|rm|ln|cp|mv|export|which)\b/
const SHELL = /\|\s*(?:sudo\s+)?(?:\S{0,100}\/)?(?:(?:ba|da|z|k)?sh|python\d?|perl|ruby|node|php|crontab|xargs|at)\b/

/** Returns true if a pipeline only prints, searches or writes text and does not pass it to an interpreter. */
export const isTextOnly = (pipeline: string): boolean =>
  WRITES.test(pipeline) && !SHELL.test(pipeline) && !/\$\(|`|<\(/.test(pipeline)

export type ScannedFile = { path: string; bytes: Buffer; isWhole: boolean }

export type TextFile = { path: string; text: string; isWhole: boolean }

/** A Dockerfile that is used, and its build context in the task. */
export type UsedDockerfile = {
  path: string
  context: string
  dockerfile: Dockerfile
  text: string
  isForAgent: boolean
}

/** A compose file that is used. */
export type UsedCompose = { path: string; folder: string; table: ValueTable }

/** Returns the line number of an offset, starting at 1. */
export function lineAt(text: string, offset: number): number {
  let line = 1
  for (let end = text.indexOf('\n'); end >= 0 && end < offset; end = text.indexOf('\n', end + 1)) line++
  return line
}
