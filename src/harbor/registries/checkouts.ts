import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type GitCheckout, type GitLog, runRegistryGit } from './git.ts'
import type { ResolvedTask, TaskLocation } from './registry.ts'

type GitTask = Extract<TaskLocation, { kind: 'git' }>

/** Checks a git URL. git must use the returned `url`, which is the parsed form. */
export type AdmitGitUrl = (url: string) => Promise<Pick<GitCheckout, 'protocol' | 'pin'> & { url: string }>

/** Clones of the repositories of a dataset: one per repository and commit, with the folders of all its tasks. */
export type Checkouts = AsyncDisposable & {
  /** Returns the folder with the files of the commit. */
  checkout(task: GitTask, signal: AbortSignal): Promise<string>
}

export async function openCheckouts(
  tasks: readonly ResolvedTask[],
  scratch: string,
  { admit, memoryKib, log }: { admit: AdmitGitUrl; memoryKib: number; log?: GitLog | undefined },
): Promise<Checkouts> {
  await mkdir(scratch, { recursive: true, mode: 0o700 })
  const folder = await mkdtemp(join(scratch, 'repositories-'))
  const paths = groupPathsByCommit(tasks)
  const clones = new Map<string, Promise<string>>()
  return {
    checkout(task, signal) {
      const key = keyOf(task)
      const cloned = clones.get(key) ?? clone(task, paths.get(key) ?? [], { folder, admit, memoryKib, log, signal })
      clones.set(key, cloned)
      cloned.catch(() => clones.delete(key)) // so that a retry clones again
      return cloned
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}

const keyOf = ({ url, commit }: GitTask): string => `${commit} ${url}`

function groupPathsByCommit(tasks: readonly ResolvedTask[]): Map<string, string[]> {
  const paths = new Map<string, string[]>()
  for (const { at } of tasks) {
    if (at.kind !== 'git') continue
    const listed = paths.get(keyOf(at)) ?? []
    listed.push(at.path)
    paths.set(keyOf(at), listed)
  }
  return paths
}

type SparseCloneOptions = {
  folder: string
  admit: AdmitGitUrl
  memoryKib: number
  log: GitLog | undefined
  signal: AbortSignal
}

/** Clones one commit, without history and with only the files of the tasks. */
async function clone(
  task: GitTask,
  paths: string[],
  { admit, memoryKib, log, signal, ...into }: SparseCloneOptions,
): Promise<string> {
  const folder = await mkdtemp(join(into.folder, 'clone-'))
  const { url, protocol, pin } = await admit(task.url)
  const { commit } = task
  const checkout: GitCheckout = { folder, memoryKib, protocol, pin, log }
  await mkdir(join(folder, 'files'))
  await runRegistryGit(checkout, ['init', '--quiet', '--template='], signal)
  await runRegistryGit(checkout, ['remote', 'add', '--', 'origin', url], signal)
  await runRegistryGit(
    checkout,
    ['fetch', '--quiet', '--depth=1', '--filter=blob:none', '--no-tags', 'origin', commit],
    signal,
  )
  await runRegistryGit(checkout, ['config', 'core.sparseCheckout', 'true'], signal)
  await mkdir(join(folder, 'git/info'), { recursive: true })
  await writeFile(join(folder, 'git/info/sparse-checkout'), paths.map(toSparsePattern).join(''))
  await runRegistryGit(checkout, ['checkout', '--quiet', '--detach', commit], signal)
  return join(folder, 'files')
}

/** Returns the sparse-checkout pattern of a folder, with special characters escaped. */
const toSparsePattern = (path: string): string =>
  path === '.' ? '/*\n' : `/${path.replaceAll(/[\\*?[\]!# ]/g, '\\$&')}/\n`
