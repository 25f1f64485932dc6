import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { mkdir, mkdtemp, readdir, readlink, rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { arch } from 'node:process'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { setTimeout as wait } from 'node:timers/promises'
import { hasCode } from '../../platform/errors.ts'
import { findProcess, isAlive } from '../../sandboxes/kernel/ownership.ts'
import { removeTree } from '../../sandboxes/kernel/run-program.ts'
import { HarnessUnfit } from '../harness.ts'
import {
  ANY_PYTHON,
  type Bundle,
  type BundleLock,
  type BundlePart,
  listTarballs,
  listWheels,
  type Tarball,
  toFolderName,
  UPLOADED_ID,
  type Wheel,
  type WheelLock,
} from './bundle.ts'
import { makeReadOnly, unpackTarballs, unpackUploaded } from './unpack.ts'

export type InstallOptions = {
  /** Folder of all installed bundles. */
  folder: string
  signal: AbortSignal
  /** Reports how many archives of a part have been fetched. */
  onProgress: (name: string, done: number, total: number) => void
  /** Opens an uploaded archive by its digest. Returns undefined if it has been deleted. */
  openUploaded?: ((digest: string) => Promise<Readable | undefined>) | undefined
}

export type InstalledFolder = { source: string; target: string }

/** Installs the missing folders of a bundle and returns all of them. Throws HarnessUnfit if that is impossible. */
export async function install({ parts }: Bundle, options: InstallOptions): Promise<InstalledFolder[]> {
  const installed: InstalledFolder[] = []
  for (const part of parts) installed.push({ source: await installPart(part, options), target: part.target })
  return installed
}

/** Returns true if every part is installed. */
export async function isInstalled({ parts }: Bundle, folder: string): Promise<boolean> {
  const found = await Promise.all(parts.map((part) => exists(join(folder, toFolderName(part)))))
  return found.every(Boolean)
}

async function installPart(part: BundlePart, options: InstallOptions): Promise<string> {
  const target = join(options.folder, toFolderName(part))
  if (await ('digest' in part ? markUsed(target) : exists(target))) return target
  await mkdir(options.folder, { recursive: true })
  await sweepDrafts(options.folder)
  await withInstallLock(target, options.signal, async () => {
    if (!(await exists(target))) await createFolder(target, part, options)
  })
  return target
}

/** Creates a folder atomically: the content is written to a draft and renamed, so that a crash leaves nothing partial. */
async function createFolder(target: string, part: BundlePart, options: InstallOptions): Promise<void> {
  await using draft = await createDraft(options.folder)
  const tree = join(draft.path, 'tree')
  await mkdir(tree)
  if ('digest' in part) await unpackUploadedPart(part, tree, options)
  else await installLocked(part.id, part.lock, { tree, archives: join(draft.path, 'archives') }, options)
  options.signal.throwIfAborted()
  await rename(tree, target).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error // Otherwise another process was faster.
  })
}

type InstallFolders = { tree: string; archives: string }

async function installLocked(
  id: string,
  lock: BundleLock | WheelLock,
  { tree, archives }: InstallFolders,
  options: InstallOptions,
) {
  const { signal, onProgress } = options
  const total = 'wheels' in lock ? listWheels(lock).length : listTarballs(lock).length
  if (total === 0) throw new HarnessUnfit(`${id} is not available for this machine's architecture.`)
  await mkdir(archives)
  const onFetched = (done: number): void => onProgress(id, done, total)
  if ('wheels' in lock) return installWheels(lock, { tree, archives, signal, onFetched })
  const tarballs = listTarballs(lock)
  const files = await fetchTarballs(tarballs, { folder: archives, signal, onFetched })
  await unpackTarballs(tarballs, files, tree)
}

/** Updates the time of last use. Returns false if the folder does not exist. */
async function markUsed(target: string): Promise<boolean> {
  const now = new Date()
  try {
    await utimes(target, now, now)
    return true
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false
    throw error
  }
}

const UPLOADED_FOLDER = new RegExp(`^${UPLOADED_ID}-[0-9a-f]{64}$`)
/** Time after which an unused bundle is removed. It is longer than any trial. */
const UNUSED_MAX_MS = 7 * 24 * 60 * 60 * 1000

/** Removes uploaded bundles that no trial has used for `UNUSED_MAX_MS`. They are installed again when needed. */
export async function sweepUploaded(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(fallbackIfMissing([])))
    if (UPLOADED_FOLDER.test(name)) await sweepUploadedFolder(folder, join(folder, name))
}

/** Renames the folder before deleting it, so that no partially deleted folder is ever used. */
async function sweepUploadedFolder(folder: string, target: string): Promise<void> {
  const stats = await stat(target).catch(fallbackIfMissing(undefined)) // Another process may sweep at the same time.
  if (!stats || Date.now() - stats.mtimeMs < UNUSED_MAX_MS) return
  await using draft = await createDraft(folder)
  await rename(target, join(draft.path, 'old')).catch(fallbackIfMissing(undefined))
}

const fallbackIfMissing =
  <T>(fallback: T) =>
  (error: unknown): T => {
    if (hasCode(error, 'ENOENT')) return fallback
    throw error
  }

async function unpackUploadedPart(
  { digest }: { digest: string },
  tree: string,
  { openUploaded }: InstallOptions,
): Promise<void> {
  const archive = await openUploaded?.(digest)
  if (!archive) throw new HarnessUnfit(`The bundle ${digest} has been deleted. Upload its archive again, then resume.`)
  await unpackUploaded(archive, tree)
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

const DRAFT_NAME = /^\.draft-(\d+)-(\d+)-/
/** Time between two attempts to acquire a lock. */
const LOCK_PAUSE_MS = 200

/** Identifies this process by its id and start time, because ids are reused. */
const describeProcess = async (): Promise<string> =>
  `${process.pid}-${(await findProcess(process.pid))?.startTime ?? '0'}`

const isProcessAlive = (pid: string, startTime: string): Promise<boolean> => isAlive({ pid: Number(pid), startTime })

/** Creates a temporary folder whose name identifies this process. */
async function createDraft(parent: string): Promise<AsyncDisposable & { path: string }> {
  const path = await mkdtemp(join(parent, `.draft-${await describeProcess()}-`))
  return { path, [Symbol.asyncDispose]: () => removeTree(path) }
}

/** Removes drafts of processes that no longer exist. */
async function sweepDrafts(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    const [, pid, startTime] = DRAFT_NAME.exec(name) ?? []
    if (pid === undefined || startTime === undefined || (await isProcessAlive(pid, startTime))) continue
    await removeTree(join(parent, name))
  }
}

/**
 * Runs the work under a lock that is shared by all processes on this machine. The lock only avoids duplicate work: if two
 * processes ever install at the same time, the second rename fails harmlessly.
 */
async function withInstallLock(target: string, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
  const path = `${target}.lock`
  while (!(await acquireLock(path))) await wait(LOCK_PAUSE_MS, undefined, { signal })
  try {
    await work()
  } finally {
    await rm(path, { force: true })
  }
}

/** Tries to create the lock: a dangling symbolic link that names its owner, because a link is created atomically. */
async function acquireLock(path: string): Promise<boolean> {
  try {
    await symlink(await describeProcess(), path)
    return true
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
  }
  const [pid = '', startTime = ''] = (await readlink(path).catch(() => '')).split('-')
  if (pid !== '' && !(await isProcessAlive(pid, startTime))) await rm(path, { force: true })
  return false
}

type FetchOptions = { folder: string; signal: AbortSignal; onFetched: (done: number) => void }

/** An npm process fetches its archives sequentially, so several run in parallel, with a few archives each. */
const BATCH_SIZE = 8
const PROCESSES_MAX = 4

/**
 * Fetches archives with npm, using the npm configuration (registry, cache) of the current user. Executes no scripts. Returns
 * the file of each integrity hash. Throws HarnessUnfit if an archive does not match the lock.
 */
async function fetchTarballs(tarballs: Tarball[], fetching: FetchOptions): Promise<Map<string, string>> {
  const { folder, signal, onFetched } = fetching
  const specs = [...new Set(tarballs.map(({ name, version }) => `${name}@${version}`))]
  await runInBatches(specs, onFetched, (specsOfBatch) => npmPack(specsOfBatch, folder, signal))
  const files = await indexByIntegrity(folder)
  const mismatched = tarballs.find(({ integrity }) => !files.has(integrity))
  if (!mismatched) return files
  throw new HarnessUnfit(
    `${mismatched.name}@${mismatched.version} from the registry does not match the lock file and was not installed.`,
  )
}

async function runInBatches(
  specs: string[],
  onFetched: (done: number) => void,
  fetch: (batch: string[]) => Promise<void>,
) {
  let [started, done] = [0, 0]
  onFetched(done)
  const worker = async (): Promise<void> => {
    while (started < specs.length) {
      const batch = specs.slice(started, started + BATCH_SIZE)
      started += batch.length
      await fetch(batch)
      done += batch.length
      onFetched(done)
    }
  }
  const outcomes = await Promise.allSettled(Array.from({ length: PROCESSES_MAX }, worker))
  const failed = outcomes.find((outcome) => outcome.status === 'rejected')
  if (failed) throw failed.reason
}

async function npmPack(specs: string[], folder: string, signal: AbortSignal): Promise<void> {
  const args = ['pack', '--silent', '--ignore-scripts', '--loglevel', 'error', ...specs]
  const { code, errors } = await runInstaller('npm', args, { cwd: folder, signal })
  if (code === PROGRAM_NOT_FOUND)
    throw new HarnessUnfit('npm was not found on the PATH. Install npm to install harnesses.')
  if (code !== 0)
    throw new HarnessUnfit(`npm could not fetch ${specs.join(', ')}. ${summarizeErrors(errors, NPM_ERROR)}`)
}

/** An error line of npm, except those with codes, stack frames and the path of the log. */
const NPM_ERROR = /^npm error (?!A complete log|code |syscall |errno | +at )(.+)/

/** Exit code that shells use for a program that does not exist. */
const PROGRAM_NOT_FOUND = 127

type InstallerOptions = { cwd?: string; signal: AbortSignal }

/** Runs npm or pip. Returns its exit code, which is null if it was killed, and what it wrote to standard error. */
async function runInstaller(program: string, args: string[], { cwd, signal }: InstallerOptions) {
  signal.throwIfAborted()
  const child = spawn(program, args, { cwd, stdio: ['ignore', 'ignore', 'pipe'], signal, killSignal: 'SIGKILL' })
  const exitCode = once(child, 'close').then(
    ([code]): number | null => code,
    (error: unknown) => (hasCode(error, 'ENOENT') ? PROGRAM_NOT_FOUND : 1),
  )
  const [errors, code] = await Promise.all([text(child.stderr), exitCode])
  signal.throwIfAborted()
  return { code, errors }
}

const SUMMARY_LENGTH_MAX = 400

/** Joins the error messages that a pattern finds in the lines of a program's output. */
const summarizeErrors = (output: string, pattern: RegExp): string =>
  output
    .split('\n')
    .flatMap((line) => pattern.exec(line)?.[1] ?? [])
    .join(' ')
    .slice(0, SUMMARY_LENGTH_MAX)

async function indexByIntegrity(folder: string): Promise<Map<string, string>> {
  const files = new Map<string, string>()
  for (const name of await readdir(folder)) {
    const hash = createHash('sha512')
    await pipeline(createReadStream(join(folder, name)), hash)
    files.set(`sha512-${hash.digest('base64')}`, join(folder, name))
  }
  return files
}

type WheelOptions = { tree: string; archives: string; signal: AbortSignal; onFetched: (done: number) => void }

/**
 * Installs wheels with pip, using the pip configuration (index, proxy, cache) of the current user. pip verifies every
 * digest and executes no code of a package, because a wheel has no install script.
 */
async function installWheels(lock: WheelLock, options: WheelOptions): Promise<void> {
  const { tree, archives, signal, onFetched } = options
  let done = 0
  onFetched(done)
  for (const [folder, wheels] of Map.groupBy(listWheels(lock), (wheel) => wheel.path)) {
    const requirements = join(archives, `${folder}.txt`)
    await writeFile(requirements, wheels.map(toRequirement).join(''))
    const [oldest = ''] = lock.pythons
    // The folder is a Python version, or that of wheels for any version, which must suit the oldest one too.
    const python = folder === ANY_PYTHON ? oldest : folder
    await pipInstall(
      lock.package,
      [...buildPipArgs(python), '--target', join(tree, folder), '-r', requirements],
      signal,
    )
    done += wheels.length
    onFetched(done)
  }
  await makeReadOnly(tree)
}

const toRequirement = ({ name, version, sha256 }: Wheel): string => `${name}==${version} --hash=sha256:${sha256}\n`

/** Minor versions of glibc 2 whose wheels are accepted, as in `manylinux_2_28`. */
const GLIBC_MINOR = { oldest: 5, newest: 28 }
const MACHINES: Record<string, string> = { x64: 'x86_64', arm64: 'aarch64' }

/** Selects wheels for the given Python on Linux with glibc, whatever Python runs pip. */
function buildPipArgs(python: string): string[] {
  const machine = MACHINES[arch] ?? arch
  const minors = Array.from({ length: GLIBC_MINOR.newest - GLIBC_MINOR.oldest + 1 }, (_, at) => GLIBC_MINOR.newest - at)
  const systems = [...minors.map((minor) => `manylinux_2_${minor}`), 'manylinux2014', 'manylinux2010', 'manylinux1']
  return [
    ...['-m', 'pip', 'install', '--quiet', '--no-input', '--disable-pip-version-check', '--no-user', '--no-compile'],
    ...['--no-deps', '--ignore-requires-python', '--require-hashes', '--only-binary', ':all:'],
    ...['--implementation', 'cp', '--python-version', python],
    ...systems.flatMap((system) => ['--platform', `${system}_${machine}`]),
  ]
}

async function pipInstall(program: string, args: string[], signal: AbortSignal): Promise<void> {
  const { code, errors } = await runInstaller('python3', args, { signal })
  if (code === PROGRAM_NOT_FOUND || errors.includes('No module named pip'))
    throw new HarnessUnfit(
      'pip was not found. Install python3 and pip to install harnesses that are written in Python.',
    )
  if (/DO NOT MATCH THE HASHES/.test(errors))
    throw new HarnessUnfit(`A wheel of ${program} does not match the lock file and was not installed.`)
  if (code !== 0) throw new HarnessUnfit(`pip could not install ${program}. ${summarizeErrors(errors, PIP_ERROR)}`)
}

const PIP_ERROR = /^ERROR: (.+)/
