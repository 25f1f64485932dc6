import { admitAddress, type ResolveName } from '../../platform/git/address.ts'
import { refuseUrl } from '../../platform/outbound/outbound.ts'
import type { Admit } from './checkouts.ts'
import { RegistryUnavailable } from './registry.ts'

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
    const { protocol } = new URL(url)
    if (isOperators(url, operatorOrigin)) return { protocol: protocol === 'https:' ? 'https' : 'http', pin: undefined }
    const admission = await admitAddress(url, resolve)
    if (admission.kind === 'admitted') return { protocol: 'https', pin: admission.pin }
    throw admission.kind === 'not_public' ? refused(admission.host) : unresolved(admission.host)
  }
}

function isOperators(url: string, operatorOrigin: string | undefined): boolean {
  const parsed = URL.parse(url)
  if (!parsed || operatorOrigin === undefined || !['https:', 'http:'].includes(parsed.protocol)) return false
  return parsed.origin === operatorOrigin && parsed.username === '' && parsed.password === ''
}

const refused = (host: string) =>
  new RegistryUnavailable(`Git repositories at ${host} are not read: the address is not public.`, { isLasting: true })

const unresolved = (host: string) => new RegistryUnavailable(`The host name ${host} could not be resolved.`)
