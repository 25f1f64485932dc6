/**
 * Where a path of a protocol lies under a base URL. A base that names a version of its own (`…/v1`, `…/v1beta/openai`)
 * has it in the place of the path's.
 */
export function targetUrl(baseUrl: string, path: string): string {
  const base = baseUrl.replace(/\/+$/, '')
  const hasVersion = new URL(base).pathname.split('/').some((part) => VERSION.test(part))
  return base + (hasVersion ? path.replace(/^\/[^/]+/, '') : path)
}

const VERSION = /^v\d+(alpha|beta)?\d*$/
