import type { DockerfileInstruction } from '../dockerfile.ts'
import { isTable, type Value } from '../fields.ts'
import type { TaskOutline } from '../resolve.ts'
import type { UsedCompose, UsedDockerfile } from './task-parts.ts'

/** A pipeline that runs while a task is built or started. Text that is only written to a file is not included. */
export type TaskCommand = { path: string; line?: number; text: string }

export const listCommands = (
  dockerfiles: UsedDockerfile[],
  composes: UsedCompose[],
  outline: TaskOutline | undefined,
): TaskCommand[] =>
  [
    ...dockerfiles.flatMap(listDockerfileCommands),
    ...composes.flatMap(listComposeCommands),
    ...listTomlCommands(outline),
  ].flatMap(listRunPipelines)

function listRunPipelines({ text, ...place }: TaskCommand): TaskCommand[] {
  return splitPipelines(text)
    .filter((pipeline) => !isTextOnly(pipeline))
    .map((pipeline) => ({ ...place, text: pipeline }))
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
  const found: string[] = []
  let start = 0
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (!ENDS.has(token)) continue
    found.push(text.slice(start, index))
    start = index + token.length
  }
  return [...found, text.slice(start)].map((piece) => piece.trim()).filter((piece) => piece !== '')
}

const WRITES =
  /^(?:[({]\s*|!\s+)?(?:sudo\s+)?(?:echo|printf|cat|tee|grep|egrep|sed|awk|touch|mkdir|rm|ln|cp|mv|export|which)\b/
const SHELL = /\|\s*(?:sudo\s+)?(?:\S{0,100}\/)?(?:(?:ba|da|z|k)?sh|python\d?|perl|ruby|node|php|crontab|xargs|at)\b/

/** Tests for a pipeline that only prints, searches or writes text and does not pass it to an interpreter. */
export const isTextOnly = (pipeline: string): boolean =>
  WRITES.test(pipeline) && !SHELL.test(pipeline) && !/\$\(|`|<\(/.test(pipeline)
