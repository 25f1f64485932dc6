import { realpath } from 'node:fs/promises'
import { isAbsolute, sep } from 'node:path'
import { refuseUrl } from '../platform/outbound/outbound.ts'
import { isCanonicalHost, mayBePublic } from '../platform/outbound/url-rules.ts'

/** Matches `git@host:path`, in which no option can be injected and nothing is percent-encoded. */
const SCP = /^[A-Za-z0-9][\w.-]*@([a-z0-9][a-z0-9._-]*):(?!-)[\w./~-]+$/
/** Matches `ssh://git@host:port/path`, with the same restrictions. */
const SSH = /^ssh:\/\/(?:[A-Za-z0-9][\w.-]*@)?([a-z0-9][a-z0-9._-]*|\[[0-9a-f:]+\])(?::[1-9]\d{0,4})?\/(?!-)[\w./~-]+$/

/** Returns why a repository at this address cannot be connected, or undefined if it can. */
export async function findGitUrlFault(url: string, allowed: readonly string[]): Promise<string | undefined> {
  if (isAbsolute(url)) {
    const path = await findAllowedPath(url, allowed)
    return path === undefined ? 'The path does not exist, or ASSAY_GIT_ALLOW does not list it.' : undefined
  }
  const host = (SCP.exec(url) ?? SSH.exec(url))?.[1]?.replace(/^\[|\]$/g, '')
  if (host === undefined) return findHttpsFault(url)
  return isCanonicalHost(host) && mayBePublic(host) ? undefined : 'The host is not public.'
}

function findHttpsFault(url: string): string | undefined {
  const refusal = refuseUrl(url, 'client')
  if (refusal === 'not_canonical') return `Write the address as ${URL.parse(url)?.href}.`
  if (refusal) return `Use https, ssh, or a path that the operator allows (${refusal}).`
  return /[?#]/.test(url) ? 'A git address must not have a query or a fragment.' : undefined
}

/** Resolves a path and its links. Returns undefined if it does not exist or is outside the folders that are allowed. */
export async function findAllowedPath(path: string, allowed: readonly string[]): Promise<string | undefined> {
  const resolved = await realpath(path).catch(() => undefined)
  const roots = await Promise.all(allowed.map((root) => realpath(root).catch(() => undefined)))
  const isInside = roots.some((root) => root !== undefined && (resolved === root || resolved?.startsWith(root + sep)))
  return isInside ? resolved : undefined
}
