import { admitAddress, type ResolveName } from '../../platform/git/address.ts'
import { refuseUrl } from '../../platform/outbound/outbound.ts'
import { isCanonical } from '../../platform/outbound/url-rules.ts'
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
    const { protocol, href } = new URL(url)
    if (isOperators(url, operatorOrigin))
      return { url: href, protocol: protocol === 'https:' ? 'https' : 'http', pin: undefined }
    const admission = await admitAddress(url, resolve)
    if (admission.kind === 'admitted') return { url: admission.url, protocol: 'https', pin: admission.pin }
    const isLasting = admission.because !== 'unresolved'
    throw new RegistryUnavailable(`The git host ${admission.host} has no public address.`, { isLasting })
  }
}

function isOperators(url: string, operatorOrigin: string | undefined): boolean {
  const parsed = URL.parse(url)
  if (!parsed || operatorOrigin === undefined || !['https:', 'http:'].includes(parsed.protocol)) return false
  return (
    parsed.origin === operatorOrigin && isCanonical(url, parsed) && parsed.username === '' && parsed.password === ''
  )
}
