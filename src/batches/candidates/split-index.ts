import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { GitFailed, runGit } from '../../platform/git/git.ts'
import type { GitPlace } from '../../platform/git/settings.ts'

/** An index of our own over the objects of another repository, which is only read. */
export type SplitIndex = AsyncDisposable & {
  /** Begins again with this tree. */
  readTree(tree: string): Promise<void>
  /** Puts a patch onto it: no fuzz, no half. Undefined when it applies; else what git said of it. */
  apply(patch: string): Promise<string | undefined>
  writeTree(): Promise<string>
}

const SHA256_LENGTH = 64

/** New objects go to a folder that goes with it. */
export async function openIndex(place: GitPlace, tree: string, signal: AbortSignal): Promise<SplitIndex> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-split-'))
  const remove = () => rm(folder, { recursive: true, force: true })
  try {
    await makeBorrowing(folder, await objectsOf(place, signal), tree.length === SHA256_LENGTH)
  } catch (error) {
    await remove()
    throw error
  }
  const own: GitPlace = { where: [`--git-dir=${folder}/git`], cwd: folder, protocols: '' }
  const run = async (...args: string[]) => (await runGit(own, args, { signal })).toString().trim()
  return {
    readTree: async (id) => void (await run('read-tree', id)),
    async apply(patch) {
      if (patch === '') return undefined
      const file = join(folder, 'patch')
      await writeFile(file, patch, 'latin1')
      return run('apply', '--cached', '--binary', '--whitespace=nowarn', file).then(() => undefined, explained)
    },
    writeTree: () => run('write-tree'),
    [Symbol.asyncDispose]: remove,
  }
}

/** git's word on a patch is a verdict; that it was stopped is not. */
function explained(error: unknown): string {
  if (!(error instanceof GitFailed) || error.timedOut || !/^error: /m.test(error.stderr)) throw error
  return error.message
}

async function makeBorrowing(folder: string, objects: string, isSha256: boolean): Promise<void> {
  const git = join(folder, 'git')
  await mkdir(join(git, 'objects', 'info'), { recursive: true, mode: 0o700 })
  await mkdir(join(git, 'refs'))
  await writeFile(join(git, 'HEAD'), 'ref: refs/heads/none\n')
  await writeFile(join(git, 'objects', 'info', 'alternates'), `${objects}\n`)
  const format = isSha256 ? '[extensions]\n\tobjectFormat = sha256\n' : ''
  await writeFile(join(git, 'config'), `[core]\n\trepositoryFormatVersion = 1\n\tbare = true\n${format}`)
}

async function objectsOf(place: GitPlace, signal: AbortSignal): Promise<string> {
  if (place.objects !== undefined) return place.objects
  const path = await runGit(place, ['rev-parse', '--git-path', 'objects'], { signal })
  return resolve(place.cwd, path.toString().trim())
}
