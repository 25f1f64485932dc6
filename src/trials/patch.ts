import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TaskStep } from '../harbor/task.ts'
import { errorText } from '../platform/error-text.ts'
import type { ThreadSource } from '../platform/threads/threads.ts'
import type { Sandbox, StoppedSandbox } from '../sandboxes/sandbox.ts'
import { untouched } from './agent.ts'
import type { Bench } from './bench.ts'
import { TREE_CAPS } from './patch-file.ts'
import type { Surroundings } from './surroundings.ts'
import { archiveThreads } from './threads.ts'

const NAME = 'changes.patch'

/**
 * Writes a patch of the task's working folder: the files that the agent left against those that it found, which a second
 * sandbox shows that nobody worked in. Both are dead; nothing of them is run, unpacked or followed here. There is no file
 * when nothing differs. A patch that cannot be made does not change the result: the file says why.
 */
export async function keepPatch(bench: Bench, around: Surroundings, step: TaskStep, left: Sandbox): Promise<void> {
  const file = join(bench.request.outputFolder, NAME)
  try {
    if (around.workdir === '/') throw new Error('The working folder is the whole filesystem.')
    const before = await untouched(bench, around, step)
    const folders = [before.stopped, left.stopped].map((remains) => collected(remains, around.workdir))
    // Each is read twice: for what differs, and for the contents of that alone.
    await archiveThreads.run('writePatch', { file }, [...folders, ...folders])
    bench.removeLater(before)
  } catch (error) {
    bench.request.signal.throwIfAborted()
    const [line] = errorText(error).split('\n')
    await writeFile(file, `# There is no patch: ${line}\n`)
  } finally {
    // What the second sandbox said is nobody's.
    for (const name of ['untouched', 'environment-untouched', 'setup'])
      await rm(bench.outputFile(name), { force: true })
  }
}

/** Ends with the names of files that were left out; undefined when there is no such folder. */
const collected = (remains: StoppedSandbox, folder: string): ThreadSource =>
  async function* () {
    const found = await remains.collect(folder, TREE_CAPS)
    if (!found) return undefined
    yield* found.tar
    return found.leftOut
  }
