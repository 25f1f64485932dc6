import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TaskStep } from '../harbor/task.ts'
import { errorText } from '../platform/error-text.ts'
import type { ThreadSource } from '../platform/threads/threads.ts'
import type { Sandbox, StoppedSandbox } from '../sandboxes/sandbox.ts'
import { startUntouched } from './agent-phase.ts'
import type { RunningEnvironment } from './environment.ts'
import type { StepContext } from './step-context.ts'
import { archiveThreads } from './threads.ts'

const NAME = 'changes.patch'

/** Maximum number of files and bytes that are compared, on each side. */
const CAPS = { files: 50_000, bytes: 4 * 1024 ** 3 }

/**
 * Writes a patch of the agent's changes to the working directory, compared with a second sandbox in which no agent ran.
 * Both are stopped; nothing in them is executed, unpacked or followed. Writes no file when nothing differs. A patch that
 * cannot be created does not change the result: the file says why.
 */
export async function writeChangesPatch(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  agentSandbox: Sandbox,
): Promise<void> {
  const file = join(context.request.outputFolder, NAME)
  try {
    if (environment.workdir === '/') throw new Error('The working directory is the whole filesystem.')
    const before = await startUntouched(context, environment, step)
    const folders = [before.stopped, agentSandbox.stopped].map((from) => openFolder(from, environment.workdir))
    // Each is read twice: to find the differences, and for the contents of the files that differ.
    await archiveThreads.run('writePatch', { file, filesMax: CAPS.files }, [...folders, ...folders])
    context.removeLater(before)
  } catch (error) {
    context.request.signal.throwIfAborted()
    const [line] = errorText(error).split('\n')
    await writeFile(file, `# There is no patch: ${line}\n`)
  } finally {
    // Logs of the second sandbox are not part of the output.
    for (const name of ['untouched', 'environment-untouched', 'setup'])
      await rm(context.outputFile(name), { force: true })
  }
}

/** Ends with the names of files that were left out, or with undefined if the folder does not exist. */
const openFolder = (from: StoppedSandbox, folder: string): ThreadSource =>
  async function* () {
    const found = await from.collect(folder, CAPS)
    if (!found) return undefined
    yield* found.tar
    return found.leftOut
  }
