import { execFile } from 'node:child_process'
import { ArchiveRefused } from '../archive-refused.ts'
import { shown } from '../report.ts'
import { RegistryUnavailable, TaskMissing } from './registry.ts'

/** A repository that a stranger wrote is read without running anything of it, and without the settings of this machine. */
const SETTINGS = [
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'core.protectNTFS=true',
  'core.protectHFS=true',
  'core.attributesFile=/dev/null',
  'core.autocrlf=false',
  'credential.helper=',
  'submodule.recurse=false',
  'fetch.recurseSubmodules=false',
  'gc.auto=0',
  'maintenance.auto=false',
  'protocol.version=2',
  // Where a redirect leads, nobody has checked.
  'http.followRedirects=false',
  'http.lowSpeedLimit=1000',
  'http.lowSpeedTime=30',
  // Little at a time, so that the limit on memory leaves room.
  'core.packedGitWindowSize=32m',
  'core.packedGitLimit=256m',
  'core.bigFileThreshold=16m',
]

/** A tree that unfolds to billions of names ends git, not us. */
export const GIT_MEMORY_KIB = 1536 * 1024
/** Of one file, in half-kilobytes. */
const FILE_MAX_BLOCKS = 8 * 1024 * 1024
const LIMITED = `ulimit -f ${FILE_MAX_BLOCKS}; ulimit -v "$1" 2>/dev/null; shift; exec git "$@"`
const PROGRAMS = '/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin'
const TIMEOUT_MS = 600_000

export type GitPlace = {
  folder: string
  /** The only protocol that git may speak. */
  protocol: 'https' | 'http'
  /** `host:port:address`: the address that was checked is the one that is used. */
  pin: string | undefined
  memoryKib: number
}

/** One command on the repository in `folder`. Throws RegistryUnavailable; TaskMissing when there is no such
 * commit, ArchiveRefused when there is too much of it. */
export async function git(
  { folder, protocol, pin, memoryKib }: GitPlace,
  args: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const settings = pin === undefined ? SETTINGS : [...SETTINGS, `http.curloptResolve=${pin}`]
  const options = settings.flatMap((setting) => ['-c', setting])
  const where = [`--git-dir=${folder}/git`, `--work-tree=${folder}/files`]
  const env = {
    PATH: PROGRAMS,
    HOME: folder,
    LC_ALL: 'C',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: 'false',
    GIT_ALLOW_PROTOCOL: protocol,
    GIT_NO_REPLACE_OBJECTS: '1',
  }
  return new Promise((resolve, reject) => {
    execFile(
      'sh',
      ['-c', LIMITED, 'sh', String(memoryKib), ...options, ...where, ...args],
      { cwd: `${folder}/files`, env, signal, timeout: TIMEOUT_MS, maxBuffer: 1024 * 1024 },
      (error, _, stderr) => (error ? reject(signal.aborted ? signal.reason : explained(stderr)) : resolve()),
    )
  })
}

const NO_SUCH_COMMIT = /not our ref|no such ref|couldn't find remote ref|unadvertised object|reference is not a tree/i

const TOO_LARGE = /out of memory|cannot allocate|mmap failed|file too large|signal 25/i

function explained(stderr: string): Error {
  const last = shown(stderr.trim().split('\n').at(-1) ?? '')
  if (NO_SUCH_COMMIT.test(stderr)) return new TaskMissing(`Its repository does not have that commit (${last}).`)
  if (TOO_LARGE.test(stderr)) return new ArchiveRefused('too_large', 'Its repository is too large to be read.')
  return new RegistryUnavailable(`git could not read a repository: ${last || 'it was stopped'}.`)
}
