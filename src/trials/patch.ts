import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TaskStep } from '../harbor/task.ts'
import { errorText } from '../platform/errors.ts'
import type { ThreadSource } from '../platform/threads.ts'
import type { Sandbox, StoppedSandbox } from '../sandboxes/sandbox.ts'
import { createUntouchedSandbox } from './agent-phase.ts'
import type { RunningEnvironment } from './environment.ts'
import type { StepContext } from './step-context.ts'
import { archiveThreads } from './threads.ts'

export const PATCH_FILE = 'changes.patch'

/**
 * Maximum number of files and bytes that are compared, on each side. Further names of a file (hard links) do not count
 * towards the bytes.
 */
const COMPARED_MAX = { files: 50_000, bytes: 4 * 1024 ** 3, keepsHardLinks: true }
/** Maximum time for comparing the folders, and again for reading the files that differ. */
const READ_MAX_MS = 120_000

/**
 * Writes a patch of the agent's changes to the working directory, compared with a second sandbox in which no agent ran.
 * Both are stopped; nothing in them is executed, unpacked or followed. Writes no file when nothing differs. If the
 * patch cannot be created, the file contains the reason and the result of the trial does not change.
 */
export async function writeChangesPatch(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  { agentSandbox, untouched }: { agentSandbox: Sandbox; untouched: Sandbox | undefined },
): Promise<void> {
  const file = join(context.request.outputFolder, PATCH_FILE)
  try {
    if (environment.workdir === '/') throw new Error('The working directory is the whole filesystem.')
    const before = untouched ?? (await createUntouchedSandbox(context, environment, step))
    const folders = [before.stopped, agentSandbox.stopped].map((from) => openFolder(from, environment.workdir))
    // Each folder is read twice: first to find the differences, then for the contents of the files that differ.
    const input = { file, filesMax: COMPARED_MAX.files, timeoutMs: READ_MAX_MS }
    const sources = [...folders, ...folders]
    await archiveThreads.run('writePatch', input, { sources, group: context.request.workspaceId })
    context.removeLater(before)
  } catch (error) {
    context.request.signal.throwIfAborted()
    const [line] = errorText(error).split('\n')
    await writeFile(file, `# The patch could not be created: ${line}\n`)
  }
}

/**
 * Streams a folder of a stopped sandbox as a tar. The return value lists the files that were left out; undefined if the
 * folder does not exist.
 */
const openFolder = (from: StoppedSandbox, folder: string): ThreadSource =>
  async function* () {
    const found = await from.collect(folder, COMPARED_MAX)
    if (!found) return undefined
    yield* found.tar
    return found.leftOut
  }
