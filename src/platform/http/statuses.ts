import type { z } from 'zod'
import * as problems from '../problem.ts'
import type { Endpoint } from './endpoint.ts'

/** A status of an endpoint: with a body, with one of these problems, or empty. */
export type EndpointStatus = { schema: z.ZodType | null; problems: problems.ProblemKind[] }

/** Lists every status of an endpoint: those it declares and those implied by its shape. */
export function listStatuses(endpoint: Endpoint): Map<number, EndpointStatus> {
  const statuses = new Map<number, EndpointStatus>()
  for (const [status, schema] of Object.entries(endpoint.answers))
    statuses.set(Number(status), { schema, problems: [] })
  if (endpoint.method === 'GET' && statuses.has(200) && !isStream(endpoint))
    statuses.set(304, { schema: null, problems: [] })

  for (const kind of new Set([...impliedProblems(endpoint), ...(endpoint.problems ?? [])])) {
    const status = statuses.get(kind.status) ?? { schema: null, problems: [] }
    statuses.set(kind.status, { ...status, problems: [...status.problems, kind] })
  }
  return new Map([...statuses].sort(([a], [b]) => a - b))
}

const isStream = ({ events, download }: Endpoint): boolean => events !== undefined || download === true

const impliedProblems = (endpoint: Endpoint): problems.ProblemKind[] => [
  problems.rateLimited,
  ...accessProblems(endpoint),
  ...requestProblems(endpoint),
]

function accessProblems({ access, method, path }: Endpoint): problems.ProblemKind[] {
  const implied: problems.ProblemKind[] = []
  if (access !== 'public') implied.push(problems.unauthenticated)
  if (['write', 'admin', 'operator'].includes(access)) implied.push(problems.forbidden)
  if (method !== 'GET' && access !== 'public' && access !== 'operator') implied.push(problems.csrfTokenInvalid)
  if (path.includes('{')) implied.push(problems.notFound)
  return implied
}

function requestProblems(endpoint: Endpoint): problems.ProblemKind[] {
  const { body, upload, query, creates, showsSecret, conditional } = endpoint
  const implied: problems.ProblemKind[] = []
  if (conditional) implied.push(problems.preconditionFailed, problems.preconditionRequired)
  if (body ?? upload) implied.push(problems.malformedBody, problems.bodyTooLarge, problems.unsupportedMediaType)
  if (body ?? query ?? creates) implied.push(problems.invalidRequest)
  if (creates) implied.push(problems.idempotencyKeyReused)
  if (creates && showsSecret) implied.push(problems.idempotencyKeySpent)
  return implied
}
