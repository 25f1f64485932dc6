import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import { measureBytes } from '../../platform/data-folder.ts'
import { runGit } from '../../platform/git/git.ts'
import type { GitLocation } from '../../platform/git/settings.ts'
import { listMissingCommits, type Mirror, type MirrorDeps, openMirror } from '../mirror.ts'
import { MirrorRefused, type MirrorSource, parseSshUrl, resolveAccess } from './source.ts'

/** Opens the mirror of a submodule that contains a commit. `url` is untrusted. Throws MirrorRefused. */
export type OpenSubmodule = (url: string, commit: string) => Promise<SubmoduleMirror>

export type SubmoduleMirror = Mirror & { openSubmodule: OpenSubmodule }

/**
 * A superproject whose submodules are opened. Mirrors are not shared with other repositories, which may lack access. The
 * source has no credential if the repository is public: it may give access to repositories that others cannot see.
 */
type Superproject = MirrorSource & { key: string; signal: AbortSignal }

const SUBMODULE_BYTES_MAX = 1024 ** 3
/** Maximum size of all mirrors of submodules of one repository, over all commits. */
const REPOSITORY_BYTES_MAX = 4 * 1024 ** 3
const HASH_LENGTH = 32

/**
 * Returns a function that opens submodules of a repository. Their addresses pass the same rules as those of repositories.
 * The credential of the superproject is used for submodules on the same host only.
 */
export function createSubmoduleOpener(deps: MirrorDeps, { key, signal, ...source }: Superproject): OpenSubmodule {
  return async (url, commit) => {
    const target = resolveSubmoduleUrl(source.url, url)
    if (target === undefined) throw new MirrorRefused('The address of a submodule is not allowed.')
    const isSameHost = toHost(target) === toHost(source.url)
    const submoduleSource = isSameHost ? { ...source, url: target } : { url: target }
    // A server of the operator may be private, and only repositories on it may lead to it.
    const rules = isSameHost ? deps : { ...deps, operatorOrigin: undefined }
    if (!isSameHost) await resolveAccess(submoduleSource, rules).catch(rethrowPermanent)
    const id = `submodule-${key}-${createHash('sha256').update(target).digest('hex').slice(0, HASH_LENGTH)}`
    const bytesMax = await computeBytesMax(deps, key, id)
    const mirror = await openMirror({ ...rules, bytesMax }, { ...submoduleSource, id, signal, commits: [commit] })
    await requireCommit(mirror, commit, signal)
    return { ...mirror, openSubmodule: createSubmoduleOpener(rules, { ...submoduleSource, key, signal }) }
  }
}

async function requireCommit(mirror: Mirror, commit: string, signal: AbortSignal): Promise<void> {
  const missing = await listMissingCommits(mirror.location, [commit], signal)
  if (missing.length === 0) return
  await mirror[Symbol.asyncDispose]()
  throw new MirrorRefused('No branch of a submodule has the commit that the tree names.')
}

/** Returns how large the mirror may be, given those of all other submodules of the repository. */
async function computeBytesMax({ folder, bytesMax }: MirrorDeps, key: string, id: string): Promise<number> {
  const names = await readdir(folder).catch(() => [])
  const others = names.filter((name) => name.startsWith(`submodule-${key}-`) && name !== id)
  const sizes = await Promise.all(others.map((name) => measureBytes(join(folder, name))))
  const bytesLeft = sizes.reduce((bytes, size) => bytes - size, bytesMax ?? REPOSITORY_BYTES_MAX)
  if (bytesLeft <= 0) throw new MirrorRefused('The submodules of the repository exceed the size limit of mirrors.')
  return Math.min(SUBMODULE_BYTES_MAX, bytesLeft)
}

/** Rethrows an error. A refusal that could be an outage becomes permanent, because this host was never reached before. */
function rethrowPermanent(error: unknown): never {
  throw error instanceof MirrorRefused ? new MirrorRefused(error.message) : error
}

/** Returns the address of the server that a credential is for. Paths have none. */
const toHost = (url: string): string => {
  const ssh = parseSshUrl(url)
  return ssh ? `ssh://${ssh.host}:${ssh.port}` : (URL.parse(url)?.origin ?? '')
}

/**
 * Resolves the address of a submodule, which may be relative to that of its superproject. Returns undefined for one that
 * leaves the server, and for a path on this machine if the superproject has none. Further rules apply on connection.
 */
export function resolveSubmoduleUrl(parent: string, url: string): string | undefined {
  if (/^\.{1,2}\//.test(url)) return resolveRelative(parent, url)
  if (isAbsolute(url)) return isAbsolute(parent) ? url : undefined
  return toHttps(parent, url) ?? url
}

/** Converts an ssh address on the host of an https superproject, whose token gives access to both. */
function toHttps(parent: string, url: string): string | undefined {
  const ssh = parseSshUrl(url)
  const host = URL.parse(parent)
  if (!ssh || host?.protocol !== 'https:' || host.hostname !== ssh.host || ssh.port !== 22) return undefined
  const path = url.startsWith('ssh://') ? url.replace(/^ssh:\/\/[^/]*\//, '') : url.slice(url.indexOf(':') + 1)
  return `${host.origin}/${path.replace(/^\/+/, '')}`
}

/** Splits an address into the part that names the server and the path. */
const SERVER = /^(https?:\/\/[^/]+\/|ssh:\/\/[^/]+\/|[\w.-]+@[\w.-]+:|\/)(.*)$/s

function resolveRelative(parent: string, url: string): string | undefined {
  const [, server, path = ''] = SERVER.exec(parent) ?? []
  const parts = url
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .reduce<string[] | undefined>(
      appendPart,
      path.split('/').filter((part) => part !== ''),
    )
  return server === undefined || !parts?.length ? undefined : `${server}${parts.join('/')}`
}

/** Appends a part to a path, or removes the last one for `..`. Returns undefined above the root. */
function appendPart(parts: string[] | undefined, part: string): string[] | undefined {
  if (part !== '..') return parts && [...parts, part]
  return parts?.length ? parts.slice(0, -1) : undefined
}

/** Matches an entry of `git config -z --list`: the name of the submodule, the field, and after a line break the value. */
const SUBMODULE_ENTRY = /^submodule\.(.*)\.(path|url)\n(.*)$/s

/**
 * Reads the addresses of submodules by path from a `.gitmodules` file, which is untrusted. Names of submodules are not
 * used, and neither are other settings, such as commands. Throws GitFailed for a file that git cannot parse.
 */
export async function readSubmoduleUrls(
  location: GitLocation,
  blob: string,
  signal: AbortSignal,
): Promise<Map<string, string>> {
  const listed = (
    await runGit(location, ['config', '--no-includes', `--blob=${blob}`, '-z', '--list'], { signal })
  ).toString()
  const sections = new Map<string, { path?: string; url?: string }>()
  for (const piece of listed.split('\0')) {
    const [, name, field, value] = SUBMODULE_ENTRY.exec(piece) ?? []
    if (name === undefined || field === undefined) continue
    sections.set(name, { ...sections.get(name), [field]: value })
  }
  return new Map([...sections.values()].flatMap(({ path, url }) => (path && url ? [[path, url] as const] : [])))
}
