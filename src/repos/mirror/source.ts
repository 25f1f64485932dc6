import { isAbsolute } from 'node:path'
import { admitAddress, type ResolveName } from '../../platform/git/address.ts'
import type { SecretHeader } from '../../platform/git/settings.ts'
import type { PinnedServer } from '../../platform/outbound/pinned-proxy.ts'
import { isCanonical } from '../../platform/outbound/url-rules.ts'
import { findAllowedPath } from '../git-url.ts'

/** Source of a mirror. The token is only sent to that server. */
export type MirrorSource = { url: string; token?: string | undefined }

/** Everything git may reach. `url` is the parsed form, the only one that is passed to git. */
export type MirrorReach = {
  url: string
  protocols: string
  pin: PinnedServer | undefined
  secret: SecretHeader | undefined
}

export type SourceRules = {
  resolveName: ResolveName
  /** Folders on this machine whose repositories may be read. */
  gitAllow: readonly string[]
  /** A server of the operator, which may be private. */
  operatorOrigin?: string | undefined
}

/**
 * Thrown when a repository cannot be mirrored. A retry is pointless unless `isPermanent` is false. The message is shown
 * to the workspace, so it quotes neither git nor the server; `cause` does, for the operator.
 */
export class MirrorRefused extends Error {
  override name = 'MirrorRefused'
  readonly isPermanent: boolean

  constructor(message: string, isPermanent = true, cause?: Error) {
    super(message, { cause })
    this.isPermanent = isPermanent
  }
}

/** Decides what git may reach for an address. Checked on every fetch, not only on connect. Throws MirrorRefused. */
export async function resolveReach({ url, token }: MirrorSource, rules: SourceRules): Promise<MirrorReach> {
  if (isAbsolute(url)) return resolvePath(url, rules)
  const parsed = URL.parse(url)
  // ssh would use the keys of this machine's user for any address that a workspace names.
  if (!parsed || !['https:', 'http:'].includes(parsed.protocol) || !isCanonical(url, parsed)) {
    throw new MirrorRefused(
      'Only https addresses and allowed paths can be mirrored. Connect the repository by its https address.',
    )
  }
  const secret = token === undefined ? undefined : buildSecretHeader(parsed, token)
  if (parsed.origin === rules.operatorOrigin)
    return { url: parsed.href, protocols: parsed.protocol.slice(0, -1), pin: undefined, secret }
  const admission = await admitAddress(url, rules.resolveName)
  if (admission.kind === 'admitted') return { url: admission.url, protocols: 'https', pin: admission.pin, secret }
  // The message is the same for a private address and an unknown name, so that it does not reveal internal names.
  throw new MirrorRefused(`The host ${admission.host} does not have a public address.`, admission.reason === 'address')
}

async function resolvePath(path: string, { gitAllow }: SourceRules): Promise<MirrorReach> {
  const url = await findAllowedPath(path, gitAllow)
  if (url === undefined) throw new MirrorRefused('The path does not exist, or ASSAY_GIT_ALLOW does not list it.')
  return { url, protocols: 'file', pin: undefined, secret: undefined }
}

/** Builds the header with the token as password, which GitHub, GitLab and Gitea accept with any user name. */
function buildSecretHeader({ origin }: URL, token: string): SecretHeader {
  const basic = Buffer.from(`x-access-token:${token}`).toString('base64')
  return { url: `${origin}/`, header: `Authorization: Basic ${basic}` }
}
