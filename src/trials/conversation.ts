import { open, readFile, rm } from 'node:fs/promises'
import type { TaskStep } from '../harbor/task.ts'
import { HarnessUnfit } from '../harnesses/harness.ts'
import type { JsonObject } from '../harnesses/json.ts'
import { errorText } from '../platform/errors.ts'
import type { Exit } from '../sandboxes/sandbox.ts'
import { isSandboxFailure } from './fallbacks.ts'
import { AGENT_OUTPUT_BYTES } from './limits.ts'
import type { RunningSandbox, SandboxCommand } from './running-sandbox.ts'
import type { StepContext } from './step-context.ts'

/** Maximum duration of one command, so that a program that waits for input does not use up the agent's time. */
const COMMAND_SECONDS = 600
const COMMAND_OUTPUT_BYTES = 1024 * 1024

/** Thrown when the sandbox has ended, and with it the conversation. */
class SandboxEnded extends Error {
  readonly exit: Exit

  constructor(exit: Exit) {
    super('The sandbox has ended.')
    this.exit = exit
  }
}

/** Runs a harness that works from outside the sandbox, within the agent's time limit. */
export async function runConversation(
  context: StepContext,
  running: RunningSandbox,
  step: TaskStep,
  options: SandboxCommand,
): Promise<Exit> {
  const { seconds } = options
  const { harness, model, signal } = context.request
  if (!harness.converse || !model?.ask) throw new HarnessUnfit(`${harness.name} has no access to its model here.`)
  const startedAt = performance.now()
  const elapsedSeconds = () => (performance.now() - startedAt) / 1000
  let commandCount = 0
  const timeout = AbortSignal.timeout(seconds * 1000)
  await using log = await openAgentLog(context.outputFile('agent'))
  const toExit = (code: number | null, limit: Exit['limit'] = null): Exit => ({
    code,
    limit,
    seconds: elapsedSeconds(),
    outputBytes: log.bytes(),
  })
  try {
    const code = await harness.converse({
      instruction: step.instruction,
      ask: model.ask,
      emit: log.append,
      exec: (line) => {
        commandCount += 1
        const command = ['sh', '-c', line]
        const remaining = { ...options, command, seconds: seconds - elapsedSeconds() }
        return execLine(context, running, `line-${commandCount}`, remaining)
      },
      signal: AbortSignal.any([signal, timeout]),
    })
    return toExit(code)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof SandboxEnded) return { ...error.exit, code: null, seconds: elapsedSeconds() }
    if (timeout.aborted) return toExit(null, 'seconds')
    if (error instanceof HarnessUnfit || isSandboxFailure(error)) throw error
    // The harness failed on an answer of its model: the agent has ended, and the verifier decides.
    log.append({ type: 'end', error: errorText(error) })
    return toExit(1)
  }
}

/** Runs a line of shell. Each line has its own output file, because a command that timed out may continue to write. */
async function execLine(context: StepContext, running: RunningSandbox, name: string, options: SandboxCommand) {
  const seconds = Math.max(1, Math.min(options.seconds, COMMAND_SECONDS))
  const exit = await running.exec(name, { ...options, seconds, outputBytes: COMMAND_OUTPUT_BYTES, input: '' })
  const file = context.outputFile(name)
  const output = await readFile(file, 'utf8').catch(() => '')
  await rm(file, { force: true })
  if (exit.code === null && exit.limit !== 'seconds') throw new SandboxEnded(exit)
  return { output, code: exit.code }
}

/** Opens the agent's log. Like the output of a program, lines beyond the limit are counted and dropped. */
async function openAgentLog(path: string) {
  const file = await open(path, 'w')
  let writing = Promise.resolve()
  let bytes = 0
  return {
    bytes: () => bytes,
    append(line: JsonObject): void {
      const text = `${JSON.stringify(line)}\n`
      bytes += Buffer.byteLength(text)
      if (bytes <= AGENT_OUTPUT_BYTES) writing = writing.then(() => file.appendFile(text))
      writing.catch(() => {}) // Reported when the log is closed.
    },
    async [Symbol.asyncDispose]() {
      await writing.finally(() => file.close())
    },
  }
}
