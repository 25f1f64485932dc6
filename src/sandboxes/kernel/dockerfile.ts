import {
  type Dockerfile,
  type DockerfileInstruction,
  EXPANDED_LENGTH_MAX,
  measureExpansion,
} from '../../harbor/dockerfile.ts'
import { SandboxUnsupported } from '../sandbox.ts'

/** A Dockerfile without the syntax that only BuildKit knows, and the files that its context needs in addition. */
export type ClassicDockerfile = {
  text: string
  /** Files of here-documents. */
  files: { path: string; content: string; mode: number }[]
  /** Modes of COPY --chmod. Each needs a copy of the context with this mode, in `modeFolder(mode)`. */
  modes: number[]
}

/** Folder of the build context for added files. */
export const ADDED_FOLDER = '.assay-build'
export const modeFolder = (mode: number): string => `${ADDED_FOLDER}/mode-${mode.toString(8)}`

type ClassicOptions = {
  /** True if the builder itself supports all flags of COPY, and its context cannot be added to. */
  keepCopies: boolean
}

/**
 * Rewrites the syntax that only BuildKit knows for builders without it. BuildKit itself cannot be used: its builds can
 * be limited neither in their network nor in their memory.
 *
 * - `RUN` with here-documents becomes a command in JSON form.
 * - Mounts of caches and temporary file systems are left out: the command then writes to the image.
 * - `COPY --link` changes how layers are stored, not what they contain, and is left out.
 * - `COPY --chmod` copies from a part of the context in which all files have the mode.
 * - A here-document of `COPY` becomes a file of the context.
 *
 * Throws SandboxUnsupported for everything else that needs BuildKit.
 */
export function toClassicDockerfile(text: string, dockerfile: Dockerfile, options: ClassicOptions): ClassicDockerfile {
  const lines = text.split('\n')
  const classic: ClassicDockerfile = { text: '', files: [], modes: [] }
  for (const { instruction, shell } of listWithShells(dockerfile)) {
    const rewritten = rewrite(instruction, shell, classic, options)
    if (rewritten !== undefined) replaceLines(lines, instruction, rewritten)
  }
  return { ...classic, text: lines.join('\n') }
}

/** Lists all instructions of stages, each with the shell of its commands. A stage inherits the shell of its base. */
function listWithShells({ stages }: Dockerfile): { instruction: DockerfileInstruction; shell: string[] }[] {
  const shells = new Map<string, string[]>()
  return stages.flatMap(({ image, name, instructions }) => {
    let shell = shells.get(image.toLowerCase()) ?? DEFAULT_SHELL
    const listed = instructions.map((instruction) => {
      if (instruction.keyword === 'SHELL') shell = instruction.exec ?? shell
      return { instruction, shell }
    })
    if (name !== null) shells.set(name.toLowerCase(), shell)
    return listed
  })
}

const DEFAULT_SHELL = ['/bin/sh', '-c']

/** Preserves line numbers, so that messages of the builder refer to the original lines. */
function replaceLines(lines: string[], { line, lastLine }: DockerfileInstruction, text: string): void {
  lines.fill('', line - 1, lastLine)
  lines[line - 1] = text
}

/** Returns the new text of an instruction, or undefined if it can stay. */
function rewrite(
  instruction: DockerfileInstruction,
  shell: readonly string[],
  classic: ClassicDockerfile,
  { keepCopies }: ClassicOptions,
): string | undefined {
  const { keyword, flags, heredocs } = instruction
  if (flags.length === 0 && heredocs.length === 0) return undefined
  if (keyword === 'RUN') return rewriteRun(instruction, shell)
  if (keyword !== 'COPY' && keyword !== 'ADD') return undefined
  const rest = flags.filter(({ name }) => name !== 'link')
  if (!keepCopies) return rewriteCopy({ ...instruction, flags: rest }, classic)
  if (heredocs.length > 0) throw createUnsupportedError(instruction, `${keyword} <<`)
  return rest.length === flags.length ? undefined : [keyword, ...rest.map(formatFlag), instruction.text].join(' ')
}

function rewriteRun(instruction: DockerfileInstruction, shell: readonly string[]): string {
  const { text, exec, flags, heredocs } = instruction
  const unsupportedFlag = flags.find(({ name, value }) => !canBeOmitted(name, value ?? ''))
  if (unsupportedFlag) throw createUnsupportedError(instruction, `RUN ${formatFlag(unsupportedFlag)}`)
  const [first] = heredocs
  if (!first) return `RUN ${text}`
  if (exec) throw createUnsupportedError(instruction, 'RUN <<')
  const isScript = heredocs.length === 1 && ONLY_HEREDOC.test(text)
  if (isScript && first.content.startsWith('#!')) return `RUN ${JSON.stringify([...RUN_FILE, first.content])}`
  // The shell itself reads the here-documents of a command.
  const documents = heredocs.map(({ name, content }) => `${content}${name}\n`).join('')
  const script = isScript ? first.content : `${text}\n${documents}`
  return `RUN ${JSON.stringify([...shell, script])}`
}

/** The text of a RUN whose whole command is a here-document: `<<EOF`, `<<-EOF` or with a quoted name. */
const ONLY_HEREDOC = /^<<-?\s*(["']?)\w+\1$/

/** Writes the argument to a file and executes it. */
const RUN_FILE = [
  '/bin/sh',
  '-c',
  'file=$(mktemp) && printf %s "$0" > "$file" && chmod 700 "$file" && "$file"; code=$?; rm -f "$file"; exit $code',
]

function canBeOmitted(name: string, value: string): boolean {
  if (name === 'network') return value === 'default'
  return name === 'mount' && /(^|,)type=(cache|tmpfs)(,|$)/.test(value)
}

function rewriteCopy(instruction: DockerfileInstruction, classic: ClassicDockerfile): string | undefined {
  const { keyword, flags, text, exec, heredocs, line } = instruction
  const unknown = flags.find(({ name }) => !['from', 'chown', 'chmod'].includes(name))
  if (unknown) throw createUnsupportedError(instruction, `${keyword} --${unknown.name}`)
  const chmod = flags.find(({ name }) => name === 'chmod')
  const mode = chmod && parseMode(instruction, chmod.value ?? '')
  if (mode !== undefined && heredocs.length === 0) classic.modes = [...new Set([...classic.modes, mode])]

  const words = exec ?? text.split(/\s+/).filter((word) => word !== '')
  const sources = words.slice(0, -1).map((word) => {
    const heredoc = heredocs.find(({ name }) => word.startsWith('<<') && word.replace(HEREDOC_SIGNS, '') === name)
    if (!heredoc) return mode === undefined ? word : `${modeFolder(mode)}/${word.replace(/^\/+/, '')}`
    if (heredoc.isExpanded && /[$\\]/.test(heredoc.content))
      throw createUnsupportedError(instruction, `${keyword} << with variables or backslashes`)
    const path = `${ADDED_FOLDER}/line-${line}/${heredoc.name}`
    classic.files.push({ path, content: heredoc.content, mode: mode ?? PLAIN_FILE_MODE })
    return path
  })
  const rest = flags.filter(({ name }) => name !== 'chmod').map(formatFlag)
  const target = words.at(-1) ?? ''
  const paths = [...sources, target]
  return [keyword, ...rest, exec === null ? paths.join(' ') : JSON.stringify(paths)].join(' ')
}

const PLAIN_FILE_MODE = 0o644
const HEREDOC_SIGNS = /^<<-?["']?|["']$/g

function parseMode(instruction: DockerfileInstruction, value: string): number {
  const isFromStage = instruction.flags.some(({ name }) => name === 'from')
  if (isFromStage || !/^[0-7]{3,4}$/.test(value)) throw createUnsupportedError(instruction, `COPY --chmod=${value}`)
  return Number.parseInt(value, 8)
}

const formatFlag = ({ name, value }: DockerfileInstruction['flags'][number]): string =>
  value === null ? `--${name}` : `--${name}=${value}`

const createUnsupportedError = ({ line }: DockerfileInstruction, feature: string): SandboxUnsupported =>
  new SandboxUnsupported(`Line ${line} of the Dockerfile: ${feature} needs BuildKit, which Assay does not use.`)

/** A variable: `${NAME}`, `${NAME:-fallback}` or `$NAME`. */
const VARIABLE = /\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))/g

type BuildTarget = { target: string | null; args: Record<string, string> }

/** Lists the base images of the stages up to the target, except earlier stages and scratch. */
export function listBaseNames(
  { globals, stages }: Dockerfile,
  { target, args }: BuildTarget = { target: null, args: {} },
): string[] {
  const values = new Map<string, string>()
  const expand = (text: string): string =>
    text.replaceAll(VARIABLE, (_, name, fallback, bare) => values.get(name ?? bare) || (fallback ?? ''))
  for (const { name, value } of globals.flatMap(({ pairs }) => pairs))
    values.set(name, args[name] ?? expand(value ?? ''))
  const last = target === null ? -1 : stages.findIndex(({ name }) => name === target)
  const knownStages = new Set(['scratch'])
  const bases = stages.slice(0, last === -1 ? stages.length : last + 1).flatMap(({ image, name }) => {
    const base = expand(image)
    const isBaseImage = !knownStages.has(base.toLowerCase())
    // Before the FROM that defines a stage, its name refers to an image.
    if (name !== null) knownStages.add(name.toLowerCase())
    return isBaseImage ? [base] : []
  })
  return [...new Set(bases)]
}

/**
 * Refuses features that give a build access to this machine, and arguments that make variables too long. Called before
 * anything is built.
 */
export function refuseDangers(dockerfile: Dockerfile, args: Readonly<Record<string, string>>): void {
  if (measureExpansion(dockerfile, args) > EXPANDED_LENGTH_MAX)
    throw new SandboxUnsupported(`Variables of the Dockerfile expand to more than ${EXPANDED_LENGTH_MAX} characters.`)
  for (const instruction of dockerfile.stages.flatMap(({ instructions }) => instructions)) {
    const danger = findDanger(instruction)
    if (danger) throw new SandboxUnsupported(`Line ${instruction.line} of the Dockerfile: ${danger} is refused.`)
  }
}

/** Refuses ONBUILD commands of base images, which have not been checked. */
export function refuseTriggers(name: string, triggers: readonly string[]): void {
  if (triggers.length === 0) return
  throw new SandboxUnsupported(`The image ${name} has ONBUILD commands, which are not allowed. Use another base image.`)
}

function findDanger({ keyword, text, flags }: DockerfileInstruction): string | undefined {
  // ONBUILD would run in a later stage, where these checks would not see it.
  if (keyword === 'ONBUILD') return keyword
  if (keyword === 'WORKDIR' && /^\s*["']?\/(proc|sys|dev)(\/|\s|$)/.test(text)) return `WORKDIR ${text.trim()}`
  return flags.map(({ name, value }) => `--${name}=${value ?? ''}`).find((flag) => DANGEROUS_FLAG.test(flag))
}

const DANGEROUS_FLAG = /^--(security=|network=host$|mount=.*type=(secret|ssh))/i
