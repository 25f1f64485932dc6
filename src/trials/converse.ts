import { open, readFile, rm } from 'node:fs/promises'
import type { TaskStep } from '../harbor/task.ts'
import { HarnessUnfit } from '../harnesses/harness-unfit.ts'
import type { JsonObject } from '../harnesses/json.ts'
import { errorText } from '../platform/error-text.ts'
import type { Exit } from '../sandboxes/sandbox.ts'
import type { Bench } from './bench.ts'
import { isTrouble } from './leftovers.ts'
import { AGENT_OUTPUT_BYTES } from './limits.ts'
import type { ExecWish, Living } from './living.ts'

/** One line takes no longer, so that a program that waits for somebody does not take the whole time. */
const LINE_SECONDS = 600
const LINE_OUTPUT_BYTES = 1024 * 1024

/** The sandbox itself came to its end: whatever was run last, or is run next, says so. */
class Over extends Error {
  readonly exit: Exit

  constructor(exit: Exit) {
    super('The sandbox has ended.')
    this.exit = exit
  }
}

/** Lets a harness work that is not in the sandbox itself, for as long as an agent may. */
export async function converse(bench: Bench, living: Living, step: TaskStep, wish: ExecWish): Promise<Exit> {
  const { seconds } = wish
  const { harness, model, signal } = bench.request
  if (!harness.converse || !model?.ask) throw new HarnessUnfit(`${harness.name} has no way to its model here.`)
  const started = performance.now()
  const elapsed = () => (performance.now() - started) / 1000
  let lines = 0
  const late = AbortSignal.timeout(seconds * 1000)
  await using log = await openLog(bench.outputFile('agent'))
  const exit = (code: number | null, limit: Exit['limit'] = null): Exit => ({
    ...{ code, limit, seconds: elapsed(), outputBytes: log.bytes() },
  })
  try {
    const code = await harness.converse({
      instruction: step.instruction,
      ask: model.ask,
      emit: log.tell,
      exec: (line) => {
        const command = ['sh', '-c', line]
        return execLine(bench, living, `line-${++lines}`, { ...wish, command, seconds: seconds - elapsed() })
      },
      signal: AbortSignal.any([signal, late]),
    })
    return exit(code)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof Over) return { ...error.exit, code: null, seconds: elapsed() }
    if (late.aborted) return exit(null, 'seconds')
    if (error instanceof HarnessUnfit || isTrouble(error)) throw error
    // The harness itself failed on what its model said: the agent has ended, and the verifier decides.
    log.tell({ type: 'end', error: errorText(error) })
    return exit(1)
  }
}

/** Its output goes to a file of its own: what was given up may go on writing. */
async function execLine(bench: Bench, living: Living, name: string, wish: ExecWish) {
  const limits = { seconds: Math.max(1, Math.min(wish.seconds, LINE_SECONDS)), outputBytes: LINE_OUTPUT_BYTES }
  const exit = await living.exec(name, { ...wish, ...limits, input: '' })
  const file = bench.outputFile(name)
  const output = await readFile(file, 'utf8').catch(() => '')
  await rm(file, { force: true })
  if (exit.code === null && exit.limit !== 'seconds') throw new Over(exit)
  return { output, code: exit.code }
}

/** Opens the agent's log. Like the output of a program, lines beyond the limit are counted and dropped. */
async function openLog(path: string) {
  const file = await open(path, 'w')
  let writing = Promise.resolve()
  let bytes = 0
  return {
    bytes: () => bytes,
    tell(line: JsonObject): void {
      const text = `${JSON.stringify(line)}\n`
      const isKept = bytes + Buffer.byteLength(text) <= AGENT_OUTPUT_BYTES
      bytes += Buffer.byteLength(text)
      if (isKept) writing = writing.then(() => file.appendFile(text))
      writing.catch(() => {}) // said at the end
    },
    async [Symbol.asyncDispose]() {
      await writing.finally(() => file.close())
    },
  }
}
