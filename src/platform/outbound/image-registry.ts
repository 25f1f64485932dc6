import { isIP } from 'node:net'
import type { Resolve } from './public-host.ts'
import { type AllowedHost, coversHost, hostOf, isPublicAddress, mayBePublic } from './url-rules.ts'

/** Returns the registry that an image reference names. Undefined: Docker's default registry. */
function parseRegistry(reference: string): { host: string; port: number } | 'invalid' | undefined {
  const slash = reference.indexOf('/')
  const firstPart = reference.slice(0, Math.max(0, slash))
  // Docker reads the first part as a host only if it is localhost, has a dot, a colon or brackets, or is not lower case.
  if (firstPart !== 'localhost' && !/[.:[\]]/.test(firstPart) && firstPart === firstPart.toLowerCase()) return undefined
  // Other spellings of an address, such as 0x7f.1, are read as programs would connect to them.
  const url = URL.parse(`https://${firstPart}/`)
  return url ? { host: hostOf(url).replace(/\.$/, ''), port: Number(url.port || 443) } : 'invalid'
}

/**
 * Returns true if an image would be pulled from an address or name of a private network, by its reference alone. The
 * operator can allow hosts.
 */
export function hasPrivateRegistry(reference: string, allowed: readonly AllowedHost[] = []): boolean {
  const registry = parseRegistry(reference)
  if (registry === 'invalid') return true
  if (registry === undefined) return false
  if (isAllowed(registry, registry.host, allowed)) return false
  return !mayBePublic(registry.host) || (isIP(registry.host) === 0 && !registry.host.includes('.'))
}

/** Returns true if the operator allows the registry of the image by its name or address. */
export function isListedRegistry(reference: string, allowed: readonly AllowedHost[]): boolean {
  const registry = parseRegistry(reference)
  return registry !== undefined && registry !== 'invalid' && isAllowed(registry, registry.host, allowed)
}

/** Performs the check of `hasPrivateRegistry`, and also checks the addresses to which the name of the registry resolves. */
export async function leadsToPrivateRegistry(
  reference: string,
  allowed: readonly AllowedHost[],
  resolve: Resolve,
): Promise<boolean> {
  if (hasPrivateRegistry(reference, allowed)) return true
  const registry = parseRegistry(reference)
  if (registry === undefined || registry === 'invalid' || isAllowed(registry, registry.host, allowed)) return false
  const addresses = isIP(registry.host) === 0 ? await resolve(registry.host).catch(() => []) : [registry.host]
  return addresses.some((address) => !isPublicAddress(address) && !isAllowed(registry, address, allowed))
}

/** Ports of an allowed host without a port. */
const USUAL_PORTS = [80, 443]

const isAllowed = ({ port }: { port: number }, host: string, allowed: readonly AllowedHost[]): boolean =>
  allowed.some(
    (entry) => (entry.port === null ? USUAL_PORTS.includes(port) : entry.port === port) && coversHost(entry.host, host),
  )
