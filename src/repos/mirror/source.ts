import { isAbsolute } from 'node:path'
import { admitAddress, type ResolveName } from '../../platform/git/address.ts'
import type { SecretHeader } from '../../platform/git/settings.ts'
import { gitUrlFault } from '../git-url.ts'

/** Where a mirror is filled from. The token goes to that server alone. */
export type MirrorSource = { url: string; token?: string | undefined }

export type Reach = { protocols: string; pin: string | undefined; secret: SecretHeader | undefined }

export type SourceRules = {
  resolveName: ResolveName
  /** Folders of this machine whose repositories may be read. */
  gitAllow: readonly string[]
  /** A server of the operator's own, which may be private. */
  operatorOrigin?: string | undefined
}

/** Its repository cannot be mirrored. Trying again soon gives the same answer, unless `isLasting` is false. */
export class MirrorRefused extends Error {
  override name = 'MirrorRefused'
  readonly isLasting: boolean

  constructor(message: string, isLasting = true) {
    super(message)
    this.isLasting = isLasting
  }
}

/** What git may reach for this address: checked now, whatever it was when it was connected. Throws MirrorRefused. */
export async function reachOf({ url, token }: MirrorSource, rules: SourceRules): Promise<Reach> {
  if (isAbsolute(url)) {
    const fault = await gitUrlFault(url, rules.gitAllow)
    if (fault !== undefined) throw new MirrorRefused(fault)
    return { protocols: 'file', pin: undefined, secret: undefined }
  }
  const parsed = URL.parse(url)
  // A key of this machine's user would open whatever it opens, for everybody who names an address.
  if (!parsed || !['https:', 'http:'].includes(parsed.protocol)) {
    throw new MirrorRefused('Only https addresses and allowed paths can be mirrored. Connect it by its https address.')
  }
  const secret = token === undefined ? undefined : secretOf(parsed, token)
  if (parsed.origin === rules.operatorOrigin) return { protocols: parsed.protocol.slice(0, -1), pin: undefined, secret }
  const admission = await admitAddress(url, rules.resolveName)
  if (admission.kind === 'admitted') return { protocols: 'https', pin: admission.pin, secret }
  if (admission.kind === 'not_resolved')
    throw new MirrorRefused(`The host name ${admission.host} could not be resolved.`, false)
  throw new MirrorRefused(`Repositories at ${admission.host} are not read: the address is not public.`)
}

/** As GitHub, GitLab and Gitea take a token: a password, whatever the user is called. */
function secretOf({ origin }: URL, token: string): SecretHeader {
  const basic = Buffer.from(`x-access-token:${token}`).toString('base64')
  return { url: `${origin}/`, header: `Authorization: Basic ${basic}` }
}
