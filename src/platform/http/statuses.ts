import type { z } from 'zod'
import * as problems from '../problem.ts'
import type { Endpoint } from './endpoint.ts'

/** A status that an operation can answer: with a body of its own, with one of these problems, or with nothing. */
export type Status = { schema: z.ZodType | null; problems: problems.ProblemKind[] }

/** Every status of an endpoint: what it declares, and what follows from its shape. */
export function statusesOf(endpoint: Endpoint): Map<number, Status> {
  const statuses = new Map<number, Status>()
  for (const [status, schema] of Object.entries(endpoint.answers))
    statuses.set(Number(status), { schema, problems: [] })
  if (endpoint.method === 'GET' && statuses.has(200)) statuses.set(304, { schema: null, problems: [] })

  for (const kind of new Set([...impliedProblems(endpoint), ...(endpoint.problems ?? [])])) {
    const status = statuses.get(kind.status) ?? { schema: null, problems: [] }
    statuses.set(kind.status, { ...status, problems: [...status.problems, kind] })
  }
  return new Map([...statuses].sort(([a], [b]) => a - b))
}

function impliedProblems(endpoint: Endpoint): problems.ProblemKind[] {
  const implied: problems.ProblemKind[] = [problems.rateLimited]
  const changes = endpoint.method !== 'GET'
  if (endpoint.access !== 'public') implied.push(problems.unauthenticated)
  if (['write', 'admin', 'operator'].includes(endpoint.access)) implied.push(problems.forbidden)
  if (changes && endpoint.access !== 'public' && endpoint.access !== 'operator') implied.push(problems.csrfTokenInvalid)
  if (endpoint.path.includes('{')) implied.push(problems.notFound)
  if (endpoint.body) {
    implied.push(problems.malformedBody, problems.bodyTooLarge, problems.unsupportedMediaType, problems.invalidRequest)
  }
  if (endpoint.query) implied.push(problems.invalidRequest)
  if (endpoint.creates) implied.push(problems.idempotencyKeyReused, problems.invalidRequest)
  if (endpoint.creates && endpoint.showsSecret) implied.push(problems.idempotencyKeySpent)
  return implied
}
