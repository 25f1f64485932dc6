import { isAbsolute } from 'node:path'
import { admitAddress, type ResolveName } from '../../platform/git/address.ts'
import type { SecretHeader } from '../../platform/git/settings.ts'
import type { PinnedServer } from '../../platform/outbound/pinned-proxy.ts'
import { isCanonical } from '../../platform/outbound/url-rules.ts'
import { findAllowedPath } from '../git-url.ts'

/** Where a mirror is filled from. The token goes to that server alone. */
export type MirrorSource = { url: string; token?: string | undefined }

/** `url` is the parsed form, the only one that git sees. */
export type Reach = { url: string; protocols: string; pin: PinnedServer | undefined; secret: SecretHeader | undefined }

export type SourceRules = {
  resolveName: ResolveName
  /** Folders of this machine whose repositories may be read. */
  gitAllow: readonly string[]
  /** A server of the operator's own, which may be private. */
  operatorOrigin?: string | undefined
}

/**
 * The repository cannot be mirrored. A retry soon gives the same answer, unless `isLasting` is false. The message is
 * shown to the workspace, so it quotes neither git nor the server; `cause` does, for the operator.
 */
export class MirrorRefused extends Error {
  override name = 'MirrorRefused'
  readonly isLasting: boolean

  constructor(message: string, isLasting = true, cause?: Error) {
    super(message, { cause })
    this.isLasting = isLasting
  }
}

/** Decides what git may reach for this address now, whatever was decided when it was connected. Throws MirrorRefused. */
export async function reachOf({ url, token }: MirrorSource, rules: SourceRules): Promise<Reach> {
  if (isAbsolute(url)) return reachPath(url, rules)
  const parsed = URL.parse(url)
  // An ssh key of this machine's user would open whatever it opens, for everybody who names an address.
  if (!parsed || !['https:', 'http:'].includes(parsed.protocol) || !isCanonical(url, parsed)) {
    throw new MirrorRefused('Only https addresses and allowed paths can be mirrored. Connect it by its https address.')
  }
  const secret = token === undefined ? undefined : secretOf(parsed, token)
  if (parsed.origin === rules.operatorOrigin)
    return { url: parsed.href, protocols: parsed.protocol.slice(0, -1), pin: undefined, secret }
  const admission = await admitAddress(url, rules.resolveName)
  if (admission.kind === 'admitted') return { url: admission.url, protocols: 'https', pin: admission.pin, secret }
  // The same for a private address and for an unknown name, so that nobody finds out internal names.
  throw new MirrorRefused(`The host ${admission.host} has no public address.`, admission.because === 'address')
}

async function reachPath(path: string, { gitAllow }: SourceRules): Promise<Reach> {
  const url = await findAllowedPath(path, gitAllow)
  if (url === undefined) throw new MirrorRefused('The path does not exist, or ASSAY_GIT_ALLOW does not list it.')
  return { url, protocols: 'file', pin: undefined, secret: undefined }
}

/** As GitHub, GitLab and Gitea take a token: a password, whatever the user is called. */
function secretOf({ origin }: URL, token: string): SecretHeader {
  const basic = Buffer.from(`x-access-token:${token}`).toString('base64')
  return { url: `${origin}/`, header: `Authorization: Basic ${basic}` }
}
