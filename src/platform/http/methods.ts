import { methodNotAllowed, notFound, Problem } from '../problem.ts'
import { type Endpoint, getPathParameterPattern, isCatchAll } from './endpoint.ts'
import type { HttpAnswer } from './idempotency.ts'

export const NOT_FOUND_DETAIL = 'Nothing exists at this path.'

/** Paths that are not endpoints. All of them are read-only. */
const META_PATHS = ['/healthz', '/readyz', '/metrics', '/openapi.json', '/docs', '/docs/problems']

/** Answers a request that matches no endpoint: OPTIONS, 404 or 405. */
export type AnswerUnrouted = (request: { method: string; path: string }) => HttpAnswer

export function createUnroutedAnswerer(endpoints: readonly Endpoint[]): AnswerUnrouted {
  const matchers = endpoints.map((endpoint) => ({ endpoint, matches: createPathMatcher(endpoint.path) }))

  return ({ method, path }) => {
    const matching = matchers.filter(({ matches }) => matches(path)).map(({ endpoint }) => endpoint)
    const methods = listAllowedMethods(matching, path)
    const allow = methods.join(', ')
    if (methods.length > 0 && method === 'OPTIONS')
      return { status: 204, text: '', headers: { allow, ...buildPreflightHeaders(matching, allow) } }
    if (methods.length === 0 || methods.includes(method)) throw new Problem(notFound, NOT_FOUND_DETAIL)
    throw new Problem(methodNotAllowed, `Allowed methods: ${allow}.`, { headers: { allow } })
  }
}

function listAllowedMethods(matching: readonly Endpoint[], path: string): string[] {
  const methods = new Set<string>(matching.map(({ method }) => method))
  if (META_PATHS.includes(path)) methods.add('GET')
  if (methods.has('GET')) methods.add('HEAD')
  if (methods.size > 0) methods.add('OPTIONS')
  return [...methods]
}

/** Builds the CORS preflight headers. `*` does not include `Authorization`. */
const buildPreflightHeaders = (matching: readonly Endpoint[], allow: string): Record<string, string> =>
  matching.some(({ crossOrigin }) => crossOrigin)
    ? {
        'access-control-allow-methods': allow,
        'access-control-allow-headers': '*, Authorization',
        'access-control-max-age': '86400',
      }
    : {}

/** Tests a path against a template and the pattern of each of its parameters. */
function createPathMatcher(template: string): (path: string) => boolean {
  const names: string[] = []
  const source = template.replaceAll('.', '\\.').replaceAll(/\{([^}]+)\}/g, (_, name: string) => {
    names.push(name)
    return isCatchAll(name) ? '(.+)' : '([^/]+)'
  })
  const pattern = new RegExp(`^${source}$`)
  return (path) => {
    const match = pattern.exec(path)
    if (!match) return false
    return names.every((name, index) => getPathParameterPattern(name).test(decode(match[index + 1] ?? '')))
  }
}

/** Returns invalid percent-encoding unchanged, as Hono does. */
function decode(value: string): string {
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}
