import { isAbsolute } from 'node:path'
import type { SshKey } from '../platform/git/settings.ts'
import { resolveName } from '../platform/outbound/public-host.ts'
import { GITHUB, type HostAccess } from './github.ts'
import { type IdentityDeps, openHostAccess, openSshKey } from './identity.ts'
import { type MirrorSource, parseSshUrl } from './mirror/source.ts'
import { createSubmoduleOpener, type SubmoduleMirror } from './mirror/submodules.ts'
import { type Mirror, type MirrorDeps, openMirror } from './mirror.ts'
import { listGitHistory } from './pull-requests/git-history.ts'
import { createGithubPullRequests } from './pull-requests/github.ts'
import type { PullRequests } from './pull-requests/pull-request.ts'
import type { RepositoryRow } from './repos.ts'

export type RepositoryMirrorDeps = IdentityDeps & {
  mirrors: Pick<MirrorDeps, 'folder' | 'bytesMax' | 'timeoutMs' | 'lockWaitMs' | 'log'>
}

type ConnectedRepository = Pick<
  RepositoryRow,
  'key' | 'owner' | 'name' | 'source_kind' | 'url' | 'credential_id' | 'visibility'
> & {
  workspaceId: string
}

type RepositoryMirrorOptions = {
  signal: AbortSignal
  commits?: readonly string[]
  /** Maximum time of an update of a submodule. Default: that of the repository. */
  submoduleTimeoutMs?: number | undefined
}

/** Opens the mirror of a connected repository on this worker. Throws MirrorRefused. */
export async function openRepositoryMirror(
  deps: RepositoryMirrorDeps,
  row: ConnectedRepository,
  { submoduleTimeoutMs, ...options }: RepositoryMirrorOptions,
): Promise<SubmoduleMirror & { pullRequests: PullRequests }> {
  const access = await openHostAccess(deps, row.workspaceId, row.credential_id ?? undefined)
  const operatorOrigin = deps.upstreams.github && new URL(deps.upstreams.github).origin
  const source = { ...toMirrorSource(row, access, operatorOrigin), sshKey: await findSshKey(deps, row) }
  const rules = { resolveName, gitAllow: deps.gitAllow, operatorOrigin }
  const mirrorDeps = { ...deps.mirrors, ...rules }
  const mirror = await openMirror(mirrorDeps, { id: `repository-${row.key}`, ...source, ...options })
  // Files of a public repository may be published, and a credential may give access to private repositories.
  const submoduleSource = row.visibility === 'public' ? { url: source.url } : source
  const superproject = { ...submoduleSource, key: String(row.key), signal: options.signal }
  const limits =
    submoduleTimeoutMs === undefined ? {} : { timeoutMs: submoduleTimeoutMs, lockWaitMs: submoduleTimeoutMs }
  const openSubmodule = createSubmoduleOpener({ ...mirrorDeps, ...limits }, superproject)
  return { ...mirror, openSubmodule, pullRequests: openPullRequests(deps, row, access, mirror) }
}

const findSshKey = async (
  deps: RepositoryMirrorDeps,
  { url, credential_id, workspaceId }: ConnectedRepository,
): Promise<SshKey | undefined> =>
  url !== null && credential_id !== null && parseSshUrl(url) ? openSshKey(deps, workspaceId, credential_id) : undefined

/** Returns the source of a mirror. The token is only used for the host that its credential names. */
function toMirrorSource(
  row: ConnectedRepository,
  { host, token }: HostAccess,
  operatorOrigin: string | undefined,
): MirrorSource {
  if (row.url === null) {
    const origin = host === GITHUB ? (operatorOrigin ?? `https://${GITHUB}`) : `https://${host}`
    return { url: `${origin}/${row.owner}/${row.name}.git`, token }
  }
  const isTokenHost = !isAbsolute(row.url) && row.credential_id !== null && URL.parse(row.url)?.hostname === host
  return { url: row.url, token: isTokenHost ? token : undefined }
}

/** Lists pull requests from GitHub's API, which knows most but requires a token, or else from the git history. */
const openPullRequests = (
  deps: RepositoryMirrorDeps,
  row: ConnectedRepository,
  access: HostAccess,
  mirror: Mirror,
): PullRequests =>
  row.source_kind === 'github' && access.token !== undefined
    ? createGithubPullRequests({ outbound: deps.outbound, baseUrl: deps.upstreams.github }, row, access)
    : listGitHistory(mirror)
