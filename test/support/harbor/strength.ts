import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openFolderSource } from '../../../src/harbor/folder-source.ts'
import { checkTask } from '../../../src/harbor/safety/check-task.ts'
import { writeFiles } from './folders.ts'
import { SMALL_TASK } from './small-task.ts'

/** Estimates the verifier strength of the small task with other files, and without some of its own. */
export async function estimateFiles(files: Record<string, string>, without: string[] = []) {
  const folder = mkdtempSync(join(tmpdir(), 'assay-strength-'))
  try {
    await writeFiles(folder, { ...SMALL_TASK, ...files })
    for (const path of without) rmSync(join(folder, path))
    return (await checkTask(await openFolderSource(folder))).strength
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
