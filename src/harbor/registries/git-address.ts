import { admitAddress, type ResolveName } from '../../platform/git/address.ts'
import { refuseUrl } from '../../platform/outbound/outbound.ts'
import { isCanonical } from '../../platform/outbound/url-rules.ts'
import type { AdmitGitUrl } from './checkouts.ts'
import { RegistryUnavailable } from './registry.ts'

/** Returns why a git URL is not allowed, judged by the URL alone. */
export function findGitUrlRefusal(url: string, operatorOrigin: string | undefined): string | undefined {
  return isOperatorUrl(url, operatorOrigin) ? undefined : refuseUrl(url, 'client')
}

/**
 * Creates the check of git URLs. The author of the list chose them, so they must be https and resolve to public addresses.
 * Only the origin of the list itself, which the operator configured, may be private.
 */
export function createGitAdmission(operatorOrigin: string | undefined, resolve: ResolveName): AdmitGitUrl {
  return async (url) => {
    const { protocol, href } = new URL(url)
    if (isOperatorUrl(url, operatorOrigin))
      return { url: href, protocol: protocol === 'https:' ? 'https' : 'http', pin: undefined }
    const admission = await admitAddress(url, resolve)
    if (admission.kind === 'admitted') return { url: admission.url, protocol: 'https', pin: admission.pin }
    const isLasting = admission.because !== 'unresolved'
    throw new RegistryUnavailable(`The git host ${admission.host} does not have a public address.`, { isLasting })
  }
}

function isOperatorUrl(url: string, operatorOrigin: string | undefined): boolean {
  const parsed = URL.parse(url)
  if (!parsed || operatorOrigin === undefined || !['https:', 'http:'].includes(parsed.protocol)) return false
  return (
    parsed.origin === operatorOrigin && isCanonical(url, parsed) && parsed.username === '' && parsed.password === ''
  )
}
