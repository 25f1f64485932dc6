import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { isPublicAddress } from '../../platform/outbound/addresses.ts'
import { refuseUrl } from '../../platform/outbound/outbound.ts'
import type { Admit } from './checkouts.ts'
import { RegistryUnavailable } from './registry.ts'

/** Name resolution is where the network begins; tests put their own there. */
export type ResolveName = (host: string) => Promise<string[]>

export const resolveName: ResolveName = async (host) =>
  (await lookup(host, { all: true })).map(({ address }) => address)

/** Why git would not be sent to this address, as far as the address itself tells. */
export function gitUrlRefusal(url: string, operatorOrigin: string | undefined): string | undefined {
  return isOperators(url, operatorOrigin) ? undefined : refuseUrl(url, 'client')
}

/**
 * Who wrote the list chose these addresses, so they must be public and https. Only the server that the list itself
 * comes from is the operator's choice, and may be a private one.
 */
export function admitGit(operatorOrigin: string | undefined, resolve: ResolveName): Admit {
  return async (url) => {
    const { protocol, hostname, port } = new URL(url)
    if (isOperators(url, operatorOrigin)) return { protocol: protocol === 'https:' ? 'https' : 'http', pin: undefined }
    if (refuseUrl(url, 'client')) throw refused(hostname)
    if (isIP(hostname.replace(/^\[|\]$/g, '')) !== 0) return { protocol: 'https', pin: undefined }
    return { protocol: 'https', pin: `${hostname}:${port || '443'}:${await publicAddresses(hostname, resolve)}` }
  }
}

async function publicAddresses(host: string, resolve: ResolveName): Promise<string> {
  const addresses = await resolve(host).catch(() => {
    throw new RegistryUnavailable(`The host name ${host} could not be resolved.`)
  })
  if (addresses.length === 0 || !addresses.every(isPublicAddress)) throw refused(host)
  return addresses.map((address) => (isIP(address) === 6 ? `[${address}]` : address)).join(',')
}

function isOperators(url: string, operatorOrigin: string | undefined): boolean {
  const parsed = URL.parse(url)
  if (!parsed || operatorOrigin === undefined || !['https:', 'http:'].includes(parsed.protocol)) return false
  return parsed.origin === operatorOrigin && parsed.username === '' && parsed.password === ''
}

const refused = (host: string) =>
  new RegistryUnavailable(`Git repositories at ${host} are not read: the address is not public.`, { isLasting: true })
