import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Everything that a trial writes into its output folder, as far as it is not a folder of its own process. */
const OUTPUT = /^(artifacts|control|changes\.patch|trajectory[^/]*\.json|[^/]+\.log)$/

/** Removes the output of an earlier trial or attempt, so that none of it is taken for output of the next one. */
export async function removeEarlierOutput(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  for (const name of await readdir(folder))
    if (OUTPUT.test(name)) await rm(join(folder, name), { recursive: true, force: true })
}
