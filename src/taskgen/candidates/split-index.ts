import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createEmptyRepository } from '../../platform/git/empty-repository.ts'
import { GitFailed, runGit } from '../../platform/git/git.ts'
import type { GitLocation } from '../../platform/git/settings.ts'

/** An index of our own over the objects of another repository, which is only read. */
export type SplitIndex = AsyncDisposable & {
  /** Begins again with this tree. */
  readTree(tree: string): Promise<void>
  /** Puts a patch onto it: no fuzz, no half. Undefined when it applies; else what git said of it. */
  apply(patch: string): Promise<string | undefined>
  writeTree(): Promise<string>
}

/** New objects go to a folder that goes with it. */
export async function openIndex(place: GitLocation, tree: string, signal: AbortSignal): Promise<SplitIndex> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-split-'))
  const remove = () => rm(folder, { recursive: true, force: true })
  try {
    await createEmptyRepository(join(folder, 'git'), tree)
    await writeFile(join(folder, 'git', 'objects', 'info', 'alternates'), `${await findObjectsFolder(place, signal)}\n`)
  } catch (error) {
    await remove()
    throw error
  }
  const own: GitLocation = { where: [`--git-dir=${folder}/git`], cwd: folder, protocols: '' }
  const run = async (...args: string[]) => (await runGit(own, args, { signal })).toString().trim()
  return {
    readTree: async (id) => void (await run('read-tree', id)),
    async apply(patch) {
      if (patch === '') return undefined
      const file = join(folder, 'patch')
      await writeFile(file, patch, 'latin1')
      return run('apply', '--cached', '--binary', '--whitespace=nowarn', file).then(() => undefined, toApplyError)
    },
    writeTree: () => run('write-tree'),
    [Symbol.asyncDispose]: remove,
  }
}

/** git's word on a patch is a verdict; that it was stopped is not. */
function toApplyError(error: unknown): string {
  if (!(error instanceof GitFailed) || error.timedOut || !/^error: /m.test(error.stderr)) throw error
  return error.message
}

async function findObjectsFolder(place: GitLocation, signal: AbortSignal): Promise<string> {
  if (place.objects !== undefined) return place.objects
  const path = await runGit(place, ['rev-parse', '--git-path', 'objects'], { signal })
  return resolve(place.cwd, path.toString().trim())
}
