import type { Instruction } from '../dockerfile.ts'
import { isTable, type Value } from '../fields.ts'
import type { Outline } from '../resolve.ts'
import { isOnlyText, pipelinesOf } from './shell-text.ts'
import type { UsedCompose, UsedDockerfile } from './task-parts.ts'

/** One pipeline that is run while a task is built or started. What is only written into a file is not run. */
export type Command = { path: string; line?: number; text: string }

export const commandsOf = (
  dockerfiles: UsedDockerfile[],
  composes: UsedCompose[],
  outline: Outline | undefined,
): Command[] =>
  [...dockerfiles.flatMap(inDockerfile), ...composes.flatMap(inCompose), ...inToml(outline)].flatMap(runPipelines)

function runPipelines({ text, ...place }: Command): Command[] {
  return pipelinesOf(text)
    .filter((pipeline) => !isOnlyText(pipeline))
    .map((pipeline) => ({ ...place, text: pipeline }))
}

const RUNNING = new Set(['RUN', 'CMD', 'ENTRYPOINT', 'HEALTHCHECK', 'ONBUILD', 'SHELL'])

const inDockerfile = ({ path, dockerfile }: UsedDockerfile): Command[] =>
  dockerfile.stages
    .flatMap(({ instructions }) => instructions)
    .filter(({ keyword }) => RUNNING.has(keyword))
    .flatMap((instruction) => textsOf(instruction).map((text) => ({ path, line: instruction.line, text })))

/** `RUN <<EOF` and `RUN bash <<EOF` run what follows; `RUN cat <<EOF > file` only writes it. */
function textsOf({ text, exec, heredocs }: Instruction): string[] {
  const isRun = /^(?:<<|(?:\S*\/)?(?:ba|da|z)?sh\b|(?:\S*\/)?python\d?\b|(?:\S*\/)?perl\b)/.test(text)
  return [exec ? exec.join(' ') : text, ...(isRun ? heredocs.map(({ content }) => content) : [])]
}

function inCompose({ path, table }: UsedCompose): Command[] {
  const services = isTable(table.services) ? Object.entries(table.services) : []
  return services.flatMap(([name, service]) => {
    if (!isTable(service)) return []
    const { command, entrypoint, healthcheck, post_start, pre_stop } = service
    const test = isTable(healthcheck) ? healthcheck.test : undefined
    const at = (key: string) => `${path}.services.${name}.${key}`
    return [
      { path: at('command'), text: words(command) },
      { path: at('entrypoint'), text: words(entrypoint) },
      { path: at('healthcheck'), text: words(test) },
      { path: at('post_start'), text: words(post_start) },
      { path: at('pre_stop'), text: words(pre_stop) },
    ]
  })
}

/** All texts in a value, with spaces between. */
function words(value: Value | undefined): string {
  if (typeof value === 'string') return value
  if (Array.isArray(value)) return value.map(words).join(' ')
  return isTable(value) ? Object.values(value).map(words).join(' ') : ''
}

function inToml(outline: Outline | undefined): Command[] {
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
