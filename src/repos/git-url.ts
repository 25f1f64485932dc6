import { realpath } from 'node:fs/promises'
import { isAbsolute, sep } from 'node:path'
import { refuseUrl } from '../platform/outbound/outbound.ts'
import { isCanonicalHost, mayBePublic } from '../platform/outbound/url-rules.ts'

/** `git@host:path` and `ssh://git@host:port/path`. No option can hide in them, and nothing is encoded. */
const SCP = /^[A-Za-z0-9][\w.-]*@([a-z0-9][a-z0-9._-]*):(?!-)[\w./~-]+$/
const SSH = /^ssh:\/\/(?:[A-Za-z0-9][\w.-]*@)?([a-z0-9][a-z0-9._-]*|\[[0-9a-f:]+\])(?::[1-9]\d{0,4})?\/(?!-)[\w./~-]+$/

/** Returns why a repository at this address cannot be connected, or undefined if it can. */
export async function gitUrlFault(url: string, allowed: readonly string[]): Promise<string | undefined> {
  if (isAbsolute(url)) {
    const path = await findAllowedPath(url, allowed)
    return path === undefined ? 'The path does not exist, or ASSAY_GIT_ALLOW does not list it.' : undefined
  }
  const host = (SCP.exec(url) ?? SSH.exec(url))?.[1]?.replace(/^\[|\]$/g, '')
  if (host === undefined) return httpsFault(url)
  return isCanonicalHost(host) && mayBePublic(host) ? undefined : 'The host is not a public one.'
}

function httpsFault(url: string): string | undefined {
  const refusal = refuseUrl(url, 'client')
  if (refusal === 'not_canonical') return `Write the address as ${URL.parse(url)?.href}.`
  if (refusal) return `Use https, ssh, or a path that the operator allows (${refusal}).`
  return /[?#]/.test(url) ? 'A git address has no query and no fragment.' : undefined
}

/** Resolves a path with its links. Undefined: it does not exist or lies outside the folders that the operator allows. */
export async function findAllowedPath(path: string, allowed: readonly string[]): Promise<string | undefined> {
  const resolved = await realpath(path).catch(() => undefined)
  const roots = await Promise.all(allowed.map((root) => realpath(root).catch(() => undefined)))
  const isInside = roots.some((root) => root !== undefined && (resolved === root || resolved?.startsWith(root + sep)))
  return isInside ? resolved : undefined
}
