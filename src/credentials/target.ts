/**
 * Joins a base URL and the path of a protocol. A version in the base (`…/v1`, `…/v1beta/openai`) replaces the version of
 * the path.
 */
export function buildTargetUrl(baseUrl: string, path: string): string {
  const base = baseUrl.replace(/\/+$/, '')
  const hasVersion = new URL(base).pathname.split('/').some((part) => VERSION.test(part))
  return base + (hasVersion ? path.replace(/^\/[^/]+/, '') : path)
}

const VERSION = /^v\d+(alpha|beta)?\d*$/
