import { mkdir, mkdtemp, readdir, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { measureBytes, type PrunedPath, type PruneOptions, readAgeMs } from '../platform/data-folder.ts'
import { lockFile } from '../platform/file-lock.ts'
import { GitFailed, LIMIT_EXCEEDED, runGit } from '../platform/git/git.ts'
import type { GitLocation } from '../platform/git/settings.ts'
import { openClone, type ReadableRepository, RepositoryUnreadable } from './mirror/local-clone.ts'
import {
  type MirrorAccess,
  MirrorRefused,
  type MirrorSource,
  resolveAccess,
  type SourceRules,
} from './mirror/source.ts'

export type MirrorDeps = SourceRules & {
  /** Folder of all mirrors, each in its own subfolder. */
  folder: string
  bytesMax?: number
  timeoutMs?: number
  /** Maximum wait for another process that updates the same mirror. */
  lockWaitMs?: number
  /** Receives the output of git, which must not be shown to the workspace. */
  log?: { warn(about: object, message: string): void }
}

export type MirrorOptions = MirrorSource & {
  /** Name of the mirror's folder: letters, digits and hyphens. */
  id: string
  signal: AbortSignal
  /** A mirror that has all of these commits is not updated. By default it is always updated. */
  commits?: readonly string[]
  onProgress?: (step: 'waiting' | 'cloning' | 'updating' | 'ready') => void
}

export type Mirror = ReadableRepository & {
  /** Fetches file contents of commits that the mirror already has. */
  fetchBlobs(ids: readonly string[], signal: AbortSignal): Promise<void>
}

/** Name of the lock file in the folder of a mirror. */
const LOCK_FILE = 'lock'

/** 4 GiB, and half an hour for each command of git and for the lock. */
const DEFAULT_LIMITS = { bytesMax: 4 * 1024 ** 3, timeoutMs: 1_800_000, lockWaitMs: 1_800_000 }
type MirrorSettings = MirrorDeps & typeof DEFAULT_LIMITS

/** Branches and heads of pull requests. `+` allows force-pushed updates. */
const REFS = ['+refs/heads/*:refs/heads/*', '+refs/pull/*/head:refs/pull/*/head']

/**
 * Opens a mirror of a repository in the data folder and updates it from its source. File contents are fetched on demand if
 * the server supports it. If the process is killed, the previous mirror or none remains. Throws MirrorRefused.
 */
export async function openMirror(mirrorDeps: MirrorDeps, options: MirrorOptions): Promise<Mirror> {
  const deps: MirrorSettings = { ...DEFAULT_LIMITS, ...mirrorDeps }
  const { id, signal, onProgress = () => {} } = options
  if (!/^[\w-]{1,100}$/.test(id)) throw new Error(`Invalid mirror id ${id}`)
  const mirrorFolder = join(deps.folder, id)
  await mkdir(mirrorFolder, { recursive: true, mode: 0o700 })
  onProgress('waiting')
  await using _ = await requireLock(deps, mirrorFolder, signal)
  await utimes(join(mirrorFolder, LOCK_FILE), new Date(), new Date()) // the time of the last use, for `pruneMirrors`
  const access = await resolveAccess(options, deps)
  await deleteLeftovers(mirrorFolder)
  if (!(await hasAllCommits(join(mirrorFolder, 'git'), options)))
    await updateMirror(deps, { ...options, onProgress, mirrorFolder, access })
  const repository = await openClone(join(mirrorFolder, 'git'), { signal })
  onProgress('ready')
  return {
    ...repository,
    fetchBlobs: (ids, blobSignal) => fetchBlobs(deps, { ...options, mirrorFolder }, ids, blobSignal),
  }
}

async function requireLock(
  { lockWaitMs }: MirrorSettings,
  mirrorFolder: string,
  signal: AbortSignal,
): Promise<AsyncDisposable> {
  const lock = await lockFile(join(mirrorFolder, LOCK_FILE), lockWaitMs, signal)
  if (lock) return lock
  throw new MirrorRefused('Another process is still updating this mirror. Try again later.', false)
}

/** Checks locally whether the mirror has the requested commits. A broken mirror has none. */
async function hasAllCommits(gitDir: string, { commits, signal }: MirrorOptions): Promise<boolean> {
  if (!commits || !(await exists(gitDir))) return false
  try {
    await using repository = await openClone(gitDir, { signal })
    return (await listMissingCommits(repository.location, commits, signal)).length === 0
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof GitFailed || error instanceof RepositoryUnreadable) return false
    throw error
  }
}

type MirrorUpdate = MirrorOptions & {
  mirrorFolder: string
  access: MirrorAccess
  onProgress: NonNullable<MirrorOptions['onProgress']>
}

/** Updates the mirror. If it is broken or has grown too large, it is cloned again, once. */
async function updateMirror(deps: MirrorSettings, request: MirrorUpdate): Promise<void> {
  const { mirrorFolder, onProgress } = request
  if (await exists(join(mirrorFolder, 'git'))) {
    onProgress('updating')
    const isUpdated = await fetchAll(deps, request, join(mirrorFolder, 'git')).then(() => true, rethrowUnlessBroken)
    if (isUpdated && (await measureBytes(join(mirrorFolder, 'git'))) <= deps.bytesMax) return
  }
  onProgress('cloning')
  const newClone = await mkdtemp(join(mirrorFolder, 'new-'))
  await runGit(
    toGitLocation(deps, request.access, newClone),
    ['init', '--quiet', '--bare', '--template=', newClone],
    request,
  )
  await fetchAll(deps, request, newClone)
  if ((await measureBytes(newClone)) > deps.bytesMax) throw tooLargeError()
  await rm(join(mirrorFolder, 'git'), { recursive: true, force: true })
  await rename(newClone, join(mirrorFolder, 'git'))
}

const BROKEN_MIRROR =
  /not a git repository|not in a git directory|bad object|corrupt|missing|unable to read|did not send all necessary/i

/** Returns false for a damaged mirror, for example after a crash. Rethrows errors that the server caused. */
function rethrowUnlessBroken(error: unknown): false {
  if (error instanceof MirrorRefused && error.cause instanceof GitFailed && BROKEN_MIRROR.test(error.cause.message))
    return false
  throw error
}

async function fetchAll(deps: MirrorSettings, { access, signal }: MirrorUpdate, gitDir: string): Promise<void> {
  const location = toGitLocation(deps, access, gitDir)
  const options = { signal, timeoutMs: deps.timeoutMs }
  const run = (...args: string[]) => runGit(location, args, options).catch(rethrowRefused(deps))
  // The remote is stored so that missing files can be fetched later. The URL contains no secret.
  await run('config', 'remote.origin.url', access.url)
  await run('config', 'remote.origin.promisor', 'true')
  await run('config', 'remote.origin.partialCloneFilter', 'blob:none')
  // --progress makes git write regularly, so that it notices the closed pipe and ends soon after this process.
  await run(...['fetch', '--progress', '--prune', '--force', '--no-tags', '--filter=blob:none', 'origin', ...REFS])
  const head = await run('ls-remote', '--symref', 'origin', 'HEAD')
  const branch = /^ref: (refs\/heads\/\S+)\tHEAD$/m.exec(head.toString())?.[1]
  if (branch !== undefined) await run('symbolic-ref', 'HEAD', branch)
}

const BLOBS_PER_FETCH = 5000
/** Setting of git for fetching single files, which needs no negotiation about commits. */
const NO_NEGOTIATION = ['fetch.negotiationAlgorithm=noop']

async function fetchBlobs(
  deps: MirrorSettings,
  options: MirrorOptions & { mirrorFolder: string },
  ids: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  await using _ = await requireLock(deps, options.mirrorFolder, signal)
  const access = await resolveAccess(options, deps)
  const location = toGitLocation(deps, access, join(options.mirrorFolder, 'git'))
  await runGit(location, ['config', 'remote.origin.url', access.url], { signal }).catch(rethrowRefused(deps))
  const args = ['fetch', '--progress', '--no-tags', '--no-write-fetch-head', '--filter=blob:none', '--stdin', 'origin']
  for (let from = 0; from < ids.length; from += BLOBS_PER_FETCH) {
    const input = ids.slice(from, from + BLOBS_PER_FETCH).map((id) => `${id}\n`)
    const runOptions = { signal, timeoutMs: deps.timeoutMs, input }
    await runGit({ ...location, settings: NO_NEGOTIATION }, args, runOptions).catch(rethrowRefused(deps))
  }
}

const toGitLocation = (
  deps: MirrorSettings,
  { protocols, pin, secret, ssh }: MirrorAccess,
  gitDir: string,
): GitLocation => ({
  repositoryArgs: [`--git-dir=${gitDir}`],
  cwd: gitDir,
  protocols,
  pin,
  secret,
  ssh,
  fileBytesMax: deps.bytesMax,
})

const tooLargeError = () => new MirrorRefused('The repository exceeds the size limit of mirrors.')

const NOT_FOUND = 'The repository does not exist at its address, or the credential does not give access to it.'

/** Messages for the workspace about failures that are recognised by the output of git or ssh. */
const KNOWN_FAILURES: readonly { pattern: RegExp; message: string; isPermanent: boolean }[] = [
  {
    pattern:
      /authentication failed|could not read (username|password)|returned error: 40[13]\b|repository .*not found|does not (exist|appear to be a git repository)|permission denied \(/i,
    message: NOT_FOUND,
    isPermanent: true,
  },
  {
    pattern: /host key verification failed/i,
    message: 'The server has a host key that the credential does not list in knownHosts.',
    isPermanent: true,
  },
  {
    pattern: /spawn ssh-agent ENOENT|ssh-add: not found/,
    message: 'This worker cannot use ssh: the OpenSSH client is not installed.',
    isPermanent: false,
  },
]

/** Converts a failure of git to an error with a generic message, and logs the details. */
const rethrowRefused =
  ({ log }: MirrorDeps) =>
  (error: unknown): never => {
    if (!(error instanceof GitFailed)) throw error
    if (LIMIT_EXCEEDED.test(error.stderr)) throw tooLargeError()
    log?.warn({ error }, 'failed to mirror a repository')
    if (error.timedOut) throw new MirrorRefused('Reading the repository took longer than allowed.', false, error)
    const known = KNOWN_FAILURES.find(({ pattern }) => pattern.test(error.stderr))
    if (known) throw new MirrorRefused(known.message, known.isPermanent, error)
    throw new MirrorRefused(
      'The repository could not be read. See the log of the service for the reason.',
      false,
      error,
    )
  }

/** Deletes temporary files of a process that died. The lock is held, so no other process uses them. */
async function deleteLeftovers(mirrorFolder: string): Promise<void> {
  for (const name of await readdir(mirrorFolder)) {
    if (name.startsWith('new-')) await rm(join(mirrorFolder, name), { recursive: true, force: true })
  }
  if (!(await exists(join(mirrorFolder, 'git')))) return
  for (const entry of await readdir(join(mirrorFolder, 'git'), { recursive: true, withFileTypes: true })) {
    const isLeftover = entry.name.endsWith('.lock') || /^tmp_|^\.tmp-/.test(entry.name)
    if (entry.isFile() && isLeftover) await rm(join(entry.parentPath, entry.name), { force: true })
  }
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/** Matches a line of `git cat-file --batch-check` about a commit: id, type and size. */
const COMMIT = /^[0-9a-f]+ commit \d+$/

/** Resolves names to commit ids, in the same order. An unknown name gives undefined. */
export async function findCommits(
  location: GitLocation,
  names: readonly string[],
  signal: AbortSignal,
): Promise<(string | undefined)[]> {
  if (names.length === 0) return []
  const input = names.map((name) => `${name}^{commit}\n`)
  const lines = (await runGit(location, ['cat-file', '--batch-check'], { signal, input })).toString().split('\n')
  return names.map((_, index) => {
    const line = lines[index] ?? ''
    return COMMIT.test(line) ? line.split(' ', 1)[0] : undefined
  })
}

export async function listMissingCommits(
  location: GitLocation,
  commits: readonly string[],
  signal: AbortSignal,
): Promise<string[]> {
  const found = await findCommits(location, commits, signal)
  return commits.filter((_, at) => found[at] === undefined)
}

/** Minimum time without use before a mirror is deleted. No stage reads a mirror for longer after opening it. */
const UNUSED_MS_MIN = 24 * 60 * 60 * 1000

/** Deletes mirrors that were not opened for some time. They are fetched again when they are needed. */
export async function pruneMirrors(folder: string, { olderThanMs, isDryRun }: PruneOptions): Promise<PrunedPath[]> {
  const unusedMs = Math.max(olderThanMs, UNUSED_MS_MIN)
  const pruned: PrunedPath[] = []
  for (const name of await readdir(folder).catch(() => [])) {
    const mirror = await pruneMirror(join(folder, name), unusedMs, isDryRun)
    if (mirror) pruned.push(mirror)
  }
  return pruned
}

async function pruneMirror(mirrorFolder: string, unusedMs: number, isDryRun: boolean): Promise<PrunedPath | undefined> {
  const isUnused = async (): Promise<boolean> => ((await readAgeMs(join(mirrorFolder, LOCK_FILE))) ?? 0) > unusedMs
  if (!(await isUnused())) return undefined
  await using lock = await lockFile(join(mirrorFolder, LOCK_FILE), 0)
  if (!lock || !(await isUnused())) return undefined
  // The lock file remains: if it were deleted, a waiting process and a later one would lock different files.
  const contents = (await readdir(mirrorFolder)).filter((entry) => !entry.startsWith(LOCK_FILE))
  if (contents.length === 0) return undefined
  const bytes = await measureBytes(mirrorFolder)
  if (!isDryRun) for (const entry of contents) await rm(join(mirrorFolder, entry), { recursive: true, force: true })
  return { path: mirrorFolder, bytes }
}
