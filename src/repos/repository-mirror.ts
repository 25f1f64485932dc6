import { isAbsolute } from 'node:path'
import { resolveName } from '../platform/git/address.ts'
import type { HostAccess } from './code-host.ts'
import { GITHUB } from './github-request.ts'
import { accessOf, type IdentityTools } from './identity.ts'
import type { MirrorSource } from './mirror/source.ts'
import { type Mirror, type MirrorTools, openMirror } from './mirror.ts'
import { gitHistory } from './pull-requests/git-history.ts'
import { githubPullRequests } from './pull-requests/github.ts'
import type { PullRequests } from './pull-requests/pull-request.ts'
import type { RepositoryRow } from './repos.ts'

export type RepositoryMirrorTools = IdentityTools & {
  mirrors: Pick<MirrorTools, 'folder' | 'bytesMax' | 'timeoutMs' | 'lockWaitMs' | 'log'>
}

type Connected = Pick<RepositoryRow, 'key' | 'owner' | 'name' | 'source_kind' | 'url' | 'credential_id'> & {
  workspaceId: string
}

type Wish = { signal: AbortSignal; commits?: readonly string[] }

/** Whatever this worker has of it already is used. Throws MirrorRefused. */
export async function openRepositoryMirror(
  tools: RepositoryMirrorTools,
  row: Connected,
  wish: Wish,
): Promise<Mirror & { pullRequests: PullRequests }> {
  const access = await accessOf(tools, row.workspaceId, row.credential_id ?? undefined)
  const operatorOrigin = originOf(tools.upstreams.github)
  const source = sourceOf(row, access, operatorOrigin)
  const rules = { resolveName, gitAllow: tools.gitAllow, operatorOrigin }
  const mirror = await openMirror({ ...tools.mirrors, ...rules }, { id: `repository-${row.key}`, ...source, ...wish })
  return { ...mirror, pullRequests: pullRequestsIn(tools, row, access, mirror) }
}

const originOf = (url: string | undefined): string | undefined => (url === undefined ? undefined : new URL(url).origin)

/** A token goes to the host that its credential names, and to no other. */
function sourceOf(row: Connected, { host, token }: HostAccess, operatorOrigin: string | undefined): MirrorSource {
  if (row.url === null) {
    const origin = host === GITHUB ? (operatorOrigin ?? `https://${GITHUB}`) : `https://${host}`
    return { url: `${origin}/${row.owner}/${row.name}.git`, token }
  }
  const isItsOwn = !isAbsolute(row.url) && row.credential_id !== null && URL.parse(row.url)?.hostname === host
  return { url: row.url, token: isItsOwn ? token : undefined }
}

/** GitHub knows most of them, and tells it to those it knows. Else the history itself does. */
const pullRequestsIn = (
  tools: RepositoryMirrorTools,
  row: Connected,
  access: HostAccess,
  mirror: Mirror,
): PullRequests =>
  row.source_kind === 'github' && access.token !== undefined
    ? githubPullRequests({ outbound: tools.outbound, baseUrl: tools.upstreams.github }, row, access)
    : gitHistory(mirror)
