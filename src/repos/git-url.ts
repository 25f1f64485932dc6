import { realpath } from 'node:fs/promises'
import { isAbsolute, sep } from 'node:path'
import { refuseUrl } from '../platform/outbound/outbound.ts'
import { mayBePublic } from '../platform/outbound/url-rules.ts'

/** `git@host:path`, as git writes it. No option can hide in it, and no port. */
const SCP = /^[A-Za-z0-9][\w.-]*@([A-Za-z0-9][A-Za-z0-9.-]*):(?!-)[\w./~-]+$/

/** Why a repository at this address is not connected. Undefined: it may be. */
export async function gitUrlFault(url: string, allowed: readonly string[]): Promise<string | undefined> {
  if (isAbsolute(url)) return pathFault(url, allowed)
  const host = SCP.exec(url)?.[1] ?? sshHost(url)
  if (host !== undefined) return mayBePublic(host) ? undefined : 'The host is not a public one.'
  const refusal = refuseUrl(url, 'client')
  return refusal && `Use https, ssh, or a path that the operator allows (${refusal}).`
}

function sshHost(url: string): string | undefined {
  const parsed = URL.parse(url)
  if (parsed?.protocol !== 'ssh:' || parsed.password !== '' || parsed.username.startsWith('-')) return undefined
  return parsed.hostname.startsWith('-') ? undefined : parsed.hostname.replace(/^\[|\]$/g, '')
}

/** Where links lead counts, not how the path is written. */
async function pathFault(path: string, allowed: readonly string[]): Promise<string | undefined> {
  const place = await realpath(path).catch(() => undefined)
  const roots = await Promise.all(allowed.map((root) => realpath(root).catch(() => undefined)))
  const isInside = roots.some((root) => root !== undefined && (place === root || place?.startsWith(root + sep)))
  return isInside ? undefined : 'This path is not one that the operator allows (ASSAY_GIT_ALLOW), or is not there.'
}
