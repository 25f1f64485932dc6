import { methodNotAllowed, notFound, Problem } from '../problem.ts'
import { type Endpoint, isRest, pathParameterPattern } from './endpoint.ts'
import type { Answer } from './idempotency.ts'

export const NOTHING = 'Nothing is at this address.'

/** Addresses outside of the list of endpoints. All of them are read only. */
const META_PATHS = ['/', '/healthz', '/readyz', '/metrics', '/openapi.json', '/docs', '/docs/problems']

/** Answers a request that no endpoint takes: OPTIONS, or a problem of 404 or 405. */
export type AnswerUnrouted = (request: { method: string; path: string }) => Answer

export function unroutedAnswerer(endpoints: readonly Endpoint[]): AnswerUnrouted {
  const matchers = endpoints.map((endpoint) => ({ endpoint, matches: pathMatcher(endpoint.path) }))

  return ({ method, path }) => {
    const here = matchers.filter(({ matches }) => matches(path)).map(({ endpoint }) => endpoint)
    const methods = allowedMethods(here, path)
    const allow = methods.join(', ')
    if (methods.length > 0 && method === 'OPTIONS')
      return { status: 204, text: '', headers: { allow, ...preflightHeaders(here, allow) } }
    if (methods.length === 0 || methods.includes(method)) throw new Problem(notFound, NOTHING)
    throw new Problem(methodNotAllowed, `This address takes ${allow}.`, { headers: { allow } })
  }
}

function allowedMethods(here: readonly Endpoint[], path: string): string[] {
  const methods = new Set<string>(here.map(({ method }) => method))
  if (META_PATHS.includes(path)) methods.add('GET')
  if (methods.has('GET')) methods.add('HEAD')
  if (methods.size > 0) methods.add('OPTIONS')
  return [...methods]
}

/** CORS preflight. Browsers do not count `Authorization` among `*`. */
const preflightHeaders = (here: readonly Endpoint[], allow: string): Record<string, string> =>
  here.some(({ anywhere }) => anywhere)
    ? {
        'access-control-allow-methods': allow,
        'access-control-allow-headers': '*, Authorization',
        'access-control-max-age': '86400',
      }
    : {}

/** Tests a path against a template and the pattern of each of its parameters. */
function pathMatcher(template: string): (path: string) => boolean {
  const names: string[] = []
  const source = template.replaceAll('.', '\\.').replaceAll(/\{([^}]+)\}/g, (_, name: string) => {
    names.push(name)
    return isRest(name) ? '(.+)' : '([^/]+)'
  })
  const pattern = new RegExp(`^${source}$`)
  return (path) => {
    const match = pattern.exec(path)
    if (!match) return false
    return names.every((name, place) => pathParameterPattern(name).test(decoded(match[place + 1] ?? '')))
  }
}

/** Hono leaves a value that is not valid percent-encoding as it is, and so do we. */
function decoded(value: string): string {
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}
