import { mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { GitFailed, runGit } from '../platform/git/git.ts'
import type { GitPlace } from '../platform/git/settings.ts'
import { missingCommits } from './mirror/commits.ts'
import { openClone, RepositoryUnreadable } from './mirror/local-clone.ts'
import { lockMirror } from './mirror/mirror-lock.ts'
import type { Reading } from './mirror/reading.ts'
import { MirrorRefused, type MirrorSource, type Reach, reachOf, type SourceRules } from './mirror/source.ts'

export type MirrorTools = SourceRules & {
  /** Where all mirrors lie, one folder each. */
  folder: string
  bytesMax?: number
  timeoutMs?: number
  /** How long to wait for another process that fills the same mirror. */
  lockWaitMs?: number
  /** Gets what git and the server said. The workspace does not. */
  log?: { warn(about: object, message: string): void }
}

export type MirrorWish = MirrorSource & {
  /** The name of its folder: letters, digits, hyphens. */
  id: string
  signal: AbortSignal
  /** Where a mirror has all of these, nobody is asked for more. Default: it is brought up to date. */
  commits?: readonly string[]
  onProgress?: (step: 'waiting' | 'cloning' | 'updating' | 'ready') => void
}

export type Mirror = Reading & {
  /** Brings files of commits that are there already. */
  fetchBlobs(ids: readonly string[], signal: AbortSignal): Promise<void>
}

const LIMITS = { bytesMax: 4 * 1024 ** 3, timeoutMs: 1_800_000, lockWaitMs: 1_800_000 }
type Tools = MirrorTools & typeof LIMITS

/** Branches, where pull requests ended, and which branch is the default one. A force-push moves them. */
const REFS = ['+refs/heads/*:refs/heads/*', '+refs/pull/*/head:refs/pull/*/head']

/**
 * A copy of a repository's history in the data folder, as it is at its source now. Files come when they are asked
 * for, where the server allows it. Killed at any point it leaves the copy of before, or none. Throws MirrorRefused.
 */
export async function openMirror(given: MirrorTools, wish: MirrorWish): Promise<Mirror> {
  const tools: Tools = { ...LIMITS, ...given }
  const { id, signal, onProgress = () => {} } = wish
  if (!/^[\w-]{1,100}$/.test(id)) throw new Error(`A mirror cannot be called ${id}.`)
  const home = join(tools.folder, id)
  await mkdir(home, { recursive: true, mode: 0o700 })
  onProgress('waiting')
  await using _ = await takeLock(tools, home, signal)
  const reach = await reachOf(wish, tools)
  await clearRemains(home)
  if (!(await hasAll(join(home, 'git'), wish))) await update(tools, { ...wish, onProgress, home, reach })
  const reading = await openClone(join(home, 'git'), { signal })
  onProgress('ready')
  return { ...reading, fetchBlobs: (ids, stop) => fetchBlobs(tools, { ...wish, home }, ids, stop) }
}

async function takeLock({ lockWaitMs }: Tools, home: string, signal: AbortSignal): Promise<AsyncDisposable> {
  const lock = await lockMirror(join(home, 'lock'), lockWaitMs, signal)
  if (lock) return lock
  throw new MirrorRefused('Another process has been filling this mirror for long.', false)
}

/** Nothing is asked for: what a broken copy cannot tell, it does not have. */
async function hasAll(gitDir: string, { commits, signal }: MirrorWish): Promise<boolean> {
  if (!commits || !(await isThere(gitDir))) return false
  try {
    await using reading = await openClone(gitDir, { signal })
    return (await missingCommits(reading.place, commits, signal)).length === 0
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof GitFailed || error instanceof RepositoryUnreadable) return false
    throw error
  }
}

type Filling = MirrorWish & { home: string; reach: Reach; onProgress: NonNullable<MirrorWish['onProgress']> }

/** What was there is updated. Where that fails or has grown too large, it is made anew once. */
async function update(tools: Tools, filling: Filling): Promise<void> {
  const { home, onProgress } = filling
  if (await isThere(join(home, 'git'))) {
    onProgress('updating')
    const isUpdated = await fetchAll(tools, filling, join(home, 'git')).then(() => true, isBroken)
    if (isUpdated && (await bytesOf(join(home, 'git'))) <= tools.bytesMax) return
  }
  onProgress('cloning')
  const fresh = await mkdtemp(join(home, 'new-'))
  await runGit(placeOf(tools, filling.reach, fresh), ['init', '--quiet', '--bare', '--template=', fresh], filling)
  await fetchAll(tools, filling, fresh)
  if ((await bytesOf(fresh)) > tools.bytesMax) throw tooLarge()
  await rm(join(home, 'git'), { recursive: true, force: true })
  await rename(fresh, join(home, 'git'))
}

const BROKEN =
  /not a git repository|not in a git directory|bad object|corrupt|missing|unable to read|did not send all necessary/i

/** What a dead process left cannot be trusted; what the server refuses is not our copy's fault. */
function isBroken(error: unknown): false {
  if (error instanceof MirrorRefused && error.cause instanceof GitFailed && BROKEN.test(error.cause.message))
    return false
  throw error
}

async function fetchAll(tools: Tools, { reach, signal }: Filling, gitDir: string): Promise<void> {
  const place = placeOf(tools, reach, gitDir)
  const options = { signal, timeoutMs: tools.timeoutMs }
  const run = (...args: string[]) => runGit(place, args, options).catch(refuse(tools))
  // Without a secret in it, so that missing files can be asked for again. It is the same each time, unless it moved.
  await run('config', 'remote.origin.url', reach.url)
  await run('config', 'remote.origin.promisor', 'true')
  await run('config', 'remote.origin.partialCloneFilter', 'blob:none')
  // It tells how far it is, so that it ends soon after we do: then nobody reads that any more.
  await run(...['fetch', '--progress', '--prune', '--force', '--no-tags', '--filter=blob:none', 'origin', ...REFS])
  const head = await run('ls-remote', '--symref', 'origin', 'HEAD')
  const branch = /^ref: (refs\/heads\/\S+)\tHEAD$/m.exec(head.toString())?.[1]
  if (branch !== undefined) await run('symbolic-ref', 'HEAD', branch)
}

const IDS_AT_ONCE = 5000
/** Which commits we have does not matter for single files. */
const NO_HAGGLING = ['fetch.negotiationAlgorithm=noop']

async function fetchBlobs(
  tools: Tools,
  wish: MirrorWish & { home: string },
  ids: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  await using _ = await takeLock(tools, wish.home, signal)
  const reach = await reachOf(wish, tools)
  const place = placeOf(tools, reach, join(wish.home, 'git'))
  await runGit(place, ['config', 'remote.origin.url', reach.url], { signal }).catch(refuse(tools))
  const args = ['fetch', '--progress', '--no-tags', '--no-write-fetch-head', '--filter=blob:none', '--stdin', 'origin']
  for (let from = 0; from < ids.length; from += IDS_AT_ONCE) {
    const input = ids.slice(from, from + IDS_AT_ONCE).map((id) => `${id}\n`)
    const options = { signal, timeoutMs: tools.timeoutMs, input }
    await runGit({ ...place, settings: NO_HAGGLING }, args, options).catch(refuse(tools))
  }
}

const placeOf = (tools: Tools, { protocols, pin, secret }: Reach, gitDir: string): GitPlace => ({
  where: [`--git-dir=${gitDir}`],
  cwd: gitDir,
  protocols,
  pin,
  secret,
  fileBytesMax: tools.bytesMax,
})

const TOO_LARGE = /out of memory|cannot allocate|mmap failed|file too large|signal 25/i
const REFUSED =
  /authentication failed|could not read (username|password)|returned error: 40[13]\b|repository .*not found|does not exist/i

const tooLarge = () => new MirrorRefused('The repository is larger than a mirror may be.')

/** Turns a failure of git into one whose message is the same for every server, and logs what was said. */
const refuse =
  ({ log }: MirrorTools) =>
  (error: unknown): never => {
    if (!(error instanceof GitFailed)) throw error
    if (TOO_LARGE.test(error.stderr)) throw tooLarge()
    log?.warn({ error }, 'a repository could not be mirrored')
    if (error.timedOut) throw new MirrorRefused('Reading the repository took longer than allowed.', false, error)
    if (REFUSED.test(error.stderr)) throw new MirrorRefused(NOT_FOUND, true, error)
    throw new MirrorRefused('The repository could not be read. The log of the service has the reason.', false, error)
  }

const NOT_FOUND = 'The repository does not exist at its address, or the credential does not give access to it.'

/** Who died here held the lock that we hold now: nobody uses what it left. */
async function clearRemains(home: string): Promise<void> {
  for (const name of await readdir(home)) {
    if (name.startsWith('new-')) await rm(join(home, name), { recursive: true, force: true })
  }
  if (!(await isThere(join(home, 'git')))) return
  for (const entry of await readdir(join(home, 'git'), { recursive: true, withFileTypes: true })) {
    const isRemains = entry.name.endsWith('.lock') || /^tmp_|^\.tmp-/.test(entry.name)
    if (entry.isFile() && isRemains) await rm(join(entry.parentPath, entry.name), { force: true })
  }
}

const isThere = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

async function bytesOf(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const sizes = entries
    .filter((entry) => entry.isFile())
    .map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size)
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0)
}
