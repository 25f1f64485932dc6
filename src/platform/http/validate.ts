import type { z } from 'zod'
import { type FieldError, invalidRequest, Problem } from '../problem.ts'

/** Maximum number of invalid fields in an answer. A body can have 200,000 values, each of them wrong. */
const ERRORS_MAX = 100

/** Returns the parsed value. Throws a 422 that lists the invalid fields. */
export function validate<S extends z.ZodType>(schema: S, value: unknown, under = ''): z.output<S> {
  const result = schema.safeParse(value, { error: describeIssue })
  if (result.success) return result.data
  const { issues } = result.error
  const count = issues.reduce((sum, issue) => sum + (issue.code === 'unrecognized_keys' ? issue.keys.length : 1), 0)
  const errors = issues.slice(0, ERRORS_MAX).flatMap((issue) => fieldErrors(issue, under))
  throw new Problem(invalidRequest, summarize(errors, count), { errors: errors.slice(0, ERRORS_MAX) })
}

function fieldErrors(issue: z.core.$ZodIssue, under: string): FieldError[] {
  const path = under + issue.path.map((step) => `/${pointerStep(String(step))}`).join('')
  if (issue.code !== 'unrecognized_keys') return [{ pointer: path, code: toErrorCode(issue), message: issue.message }]
  return issue.keys.slice(0, ERRORS_MAX).map((key) => ({
    pointer: `${path}/${pointerStep(key)}`,
    code: 'unknown_field',
    message: 'Unknown field.',
  }))
}

/** A custom check may set its own code. */
const toErrorCode = (issue: z.core.$ZodIssue): string =>
  issue.code === 'custom' && typeof issue.params?.code === 'string' ? issue.params.code : issue.code

const pointerStep = (step: string): string => step.replaceAll('~', '~0').replaceAll('/', '~1')

function summarize(errors: readonly FieldError[], count: number): string {
  const [first] = errors
  if (!first) return 'The request does not match its schema.'
  const more = count > 1 ? ` (and ${count - 1} more)` : ''
  return `${first.pointer.slice(0, 200) || 'The body'}: ${first.message}${more}`
}

/** Reads query parameters as an object. Repeated parameters become a list. */
export function readQuery(url: string): Record<string, string | string[]> {
  const query: Record<string, string | string[]> = Object.create(null)
  for (const [name, value] of new URL(url).searchParams) {
    if (value.includes('\0')) throw invalidQuery(name, 'must not contain a NUL character')
    const previous = query[name]
    query[name] = previous === undefined ? value : [previous, value].flat()
  }
  return query
}

const invalidQuery = (name: string, message: string): Problem =>
  new Problem(invalidRequest, `/query/${name.slice(0, 100)}: ${message}`, {
    errors: [{ pointer: `/query/${pointerStep(name)}`, code: 'invalid_format', message }],
  })

/** Describes an issue for which the schema has no message. Returns undefined to use zod's own message. */
function describeIssue(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.input === undefined && issue.code === 'invalid_type') return 'is missing'
  if (issue.code === 'invalid_type') return TYPE_MESSAGES[issue.expected]
  if (issue.code === 'invalid_value') return `must be ${oneOf(issue.values.map(String))}`
  if (issue.code === 'too_small') return `must ${bound(issue.origin, 'at least', issue.minimum)}`
  if (issue.code === 'too_big') return `must ${bound(issue.origin, 'at most', issue.maximum)}`
  return undefined
}

const oneOf = (values: string[]): string => (values.length > 1 ? `one of ${values.join(', ')}` : values.join(''))

const TYPE_MESSAGES: Record<string, string> = {
  number: 'must be a number',
  int: 'must be a whole number',
  string: 'must be a string',
  boolean: 'must be true or false',
  array: 'must be a list',
  object: 'must be an object',
}

const UNITS: Record<string, string> = { string: 'character', array: 'entry', set: 'entry' }

function bound(origin: string, comparison: string, limit: number | bigint): string {
  const unit = UNITS[origin]
  if (unit === undefined) return `be ${comparison} ${limit}`
  return `have ${comparison} ${limit} ${limit === 1 ? unit : unit.replace(/y$/, 'ie').concat('s')}`
}
