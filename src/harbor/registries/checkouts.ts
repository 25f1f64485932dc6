import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type GitLog, type GitPlace, git } from './git.ts'
import type { ResolvedTask, TaskPlace } from './registry.ts'

type GitTask = Extract<TaskPlace, { kind: 'git' }>

/** Checks an address before git sees it. git gets the returned `url`, which is the parsed form. */
export type Admit = (url: string) => Promise<Pick<GitPlace, 'protocol' | 'pin'> & { url: string }>

/** The repositories of one dataset: each is cloned once for each commit, with the folders of all its tasks. */
export type Checkouts = AsyncDisposable & {
  /** The folder with the files of that commit. */
  folderOf(task: GitTask, signal: AbortSignal): Promise<string>
}

export async function openCheckouts(
  tasks: readonly ResolvedTask[],
  scratch: string,
  { admit, memoryKib, log }: { admit: Admit; memoryKib: number; log?: GitLog | undefined },
): Promise<Checkouts> {
  await mkdir(scratch, { recursive: true, mode: 0o700 })
  const folder = await mkdtemp(join(scratch, 'repositories-'))
  const paths = pathsByCommit(tasks)
  const clones = new Map<string, Promise<string>>()
  return {
    folderOf(task, signal) {
      const key = keyOf(task)
      const known = clones.get(key) ?? clone(task, paths.get(key) ?? [], { folder, admit, memoryKib, log, signal })
      clones.set(key, known)
      known.catch(() => clones.delete(key)) // the next try begins anew
      return known
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}

const keyOf = ({ url, commit }: GitTask): string => `${commit} ${url}`

function pathsByCommit(tasks: readonly ResolvedTask[]): Map<string, string[]> {
  const paths = new Map<string, string[]>()
  for (const { at } of tasks) {
    if (at.kind !== 'git') continue
    const listed = paths.get(keyOf(at)) ?? []
    listed.push(at.path)
    paths.set(keyOf(at), listed)
  }
  return paths
}

type Cloning = { folder: string; admit: Admit; memoryKib: number; log: GitLog | undefined; signal: AbortSignal }

/** Of one commit, without history and without any file that no task needs. */
async function clone(
  task: GitTask,
  paths: string[],
  { admit, memoryKib, log, signal, ...into }: Cloning,
): Promise<string> {
  const folder = await mkdtemp(join(into.folder, 'clone-'))
  const { url, protocol, pin } = await admit(task.url)
  const { commit } = task
  const place: GitPlace = { folder, memoryKib, protocol, pin, log }
  await mkdir(join(folder, 'files'))
  await git(place, ['init', '--quiet', '--template='], signal)
  await git(place, ['remote', 'add', '--', 'origin', url], signal)
  await git(place, ['fetch', '--quiet', '--depth=1', '--filter=blob:none', '--no-tags', 'origin', commit], signal)
  await git(place, ['config', 'core.sparseCheckout', 'true'], signal)
  await mkdir(join(folder, 'git/info'), { recursive: true })
  await writeFile(join(folder, 'git/info/sparse-checkout'), paths.map(patternOf).join(''))
  await git(place, ['checkout', '--quiet', '--detach', commit], signal)
  return join(folder, 'files')
}

/** Everything in that folder, whatever characters its name has. */
const patternOf = (path: string): string => (path === '.' ? '/*\n' : `/${path.replaceAll(/[\\*?[\]!# ]/g, '\\$&')}/\n`)
