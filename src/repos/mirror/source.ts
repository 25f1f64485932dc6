import { realpath } from 'node:fs/promises'
import { isAbsolute, sep } from 'node:path'
import { admitAddress } from '../../platform/git/git.ts'
import type { SecretHeader, SshKey, SshServer } from '../../platform/git/settings.ts'
import { findUrlRefusal } from '../../platform/outbound/outbound.ts'
import type { PinnedServer } from '../../platform/outbound/pinned-connections.ts'
import { type Resolve, resolvePublicHost } from '../../platform/outbound/public-host.ts'
import { isCanonical, isCanonicalHost, mayBePublic } from '../../platform/outbound/url-rules.ts'

/** Source of a mirror. The token is only sent to that server, and ssh uses the key only with hosts that it knows. */
export type MirrorSource = { url: string; token?: string | undefined; sshKey?: SshKey | undefined }

/** The only server or path that git may access, and how. `url` is the parsed form, which is passed to git. */
export type MirrorAccess = {
  url: string
  protocols: string
  pin: PinnedServer | undefined
  secret: SecretHeader | undefined
  ssh?: SshServer | undefined
}

export type SourceRules = {
  resolveName: Resolve
  /** Folders on this machine whose repositories may be read. */
  gitAllow: readonly string[]
  /** A server of the operator, which may be private. */
  operatorOrigin?: string | undefined
}

/**
 * Thrown when a repository cannot be mirrored. A retry can succeed only if `isPermanent` is false. The message is shown
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

/** Decides what git may access for an address. Checked on every fetch, not only on connect. Throws MirrorRefused. */
export async function resolveAccess({ url, token, sshKey }: MirrorSource, rules: SourceRules): Promise<MirrorAccess> {
  if (isAbsolute(url)) return resolvePath(url, rules)
  const target = parseSshUrl(url)
  if (target) return resolveSsh(url, target, sshKey, rules)
  const parsed = URL.parse(url)
  if (!parsed || !['https:', 'http:'].includes(parsed.protocol) || !isCanonical(url, parsed))
    throw new MirrorRefused('Only https and ssh addresses and allowed paths can be mirrored.')
  const secret = token === undefined ? undefined : buildSecretHeader(parsed, token)
  if (parsed.origin === rules.operatorOrigin)
    return { url: parsed.href, protocols: parsed.protocol.slice(0, -1), pin: undefined, secret }
  const admission = await admitAddress(url, rules.resolveName)
  if (admission.kind === 'admitted') return { url: admission.url, protocols: 'https', pin: admission.pin, secret }
  throw notPublicError(admission.host, admission.reason === 'address')
}

/** The message is the same for a private address and an unknown name, so that it does not reveal internal names. */
const notPublicError = (host: string, isPermanent: boolean): MirrorRefused =>
  new MirrorRefused(`The host ${host} does not have a public address.`, isPermanent)

async function resolveSsh(
  url: string,
  { host, port }: SshTarget,
  key: SshKey | undefined,
  rules: SourceRules,
): Promise<MirrorAccess> {
  if (!key) throw new MirrorRefused('An ssh address needs a code-host credential of the provider ssh.')
  const isValid = isCanonicalHost(host)
  const resolved = isValid ? await resolvePublicHost(host, rules.resolveName) : undefined
  const [address] = resolved?.kind === 'public' ? resolved.addresses : []
  if (address === undefined) throw notPublicError(host, !isValid)
  return { url, protocols: 'ssh', pin: undefined, secret: undefined, ssh: { host, port, address, key } }
}

async function resolvePath(path: string, { gitAllow }: SourceRules): Promise<MirrorAccess> {
  const url = await findAllowedPath(path, gitAllow)
  if (url === undefined) throw new MirrorRefused('The path does not exist, or ASSAY_GIT_ALLOW does not list it.')
  return { url, protocols: 'file', pin: undefined, secret: undefined }
}

/** Builds the header with the token as password, which GitHub, GitLab and Gitea accept with any user name. */
function buildSecretHeader({ origin }: URL, token: string): SecretHeader {
  const basic = Buffer.from(`x-access-token:${token}`).toString('base64')
  return { url: `${origin}/`, header: `Authorization: Basic ${basic}` }
}

/** Matches `git@host:path`, in which no option can be injected and nothing is percent-encoded. */
const SCP_ADDRESS = /^[A-Za-z0-9][\w.-]*@([a-z0-9][a-z0-9._-]*):(?!-)[\w./~-]+$/
/** Matches `ssh://git@host:port/path`, with the same restrictions. */
const SSH_ADDRESS =
  /^ssh:\/\/(?:[A-Za-z0-9][\w.-]*@)?([a-z0-9][a-z0-9._-]*|\[[0-9a-f:]+\])(?::([1-9]\d{0,4}))?\/(?!-)[\w./~-]+$/

type SshTarget = { host: string; port: number }

export function parseSshUrl(url: string): SshTarget | undefined {
  const [, host, port] = SCP_ADDRESS.exec(url) ?? SSH_ADDRESS.exec(url) ?? []
  return host === undefined ? undefined : { host: host.replace(/^\[|\]$/g, ''), port: Number(port ?? 22) }
}

/** Returns why a repository at this address cannot be connected, or undefined if it can. */
export async function findGitUrlFault(url: string, allowed: readonly string[]): Promise<string | undefined> {
  if (isAbsolute(url)) {
    const path = await findAllowedPath(url, allowed)
    return path === undefined ? 'The path does not exist, or ASSAY_GIT_ALLOW does not list it.' : undefined
  }
  const target = parseSshUrl(url)
  if (!target) return findHttpsFault(url)
  return isCanonicalHost(target.host) && mayBePublic(target.host) ? undefined : 'The host is not public.'
}

function findHttpsFault(url: string): string | undefined {
  const refusal = findUrlRefusal(url, 'client')
  if (refusal === 'not_canonical') return `Write the address as ${URL.parse(url)?.href}.`
  if (refusal) return `Use https, ssh, or a path that the operator allows (${refusal}).`
  return /[?#]/.test(url) ? 'A git address must not have a query or a fragment.' : undefined
}

/** Resolves a path and its links. Returns undefined if it does not exist or is outside the folders that are allowed. */
async function findAllowedPath(path: string, allowed: readonly string[]): Promise<string | undefined> {
  const resolved = await realpath(path).catch(() => undefined)
  const roots = await Promise.all(allowed.map((root) => realpath(root).catch(() => undefined)))
  const isInside = roots.some((root) => root !== undefined && (resolved === root || resolved?.startsWith(root + sep)))
  return isInside ? resolved : undefined
}
