import type { z } from 'zod'
import { type FieldError, invalidRequest, Problem } from '../problem.ts'
import { inPlainWords } from './plain-words.ts'

/** The parsed value, or a 422 that names every field that is wrong. */
export function validate<S extends z.ZodType>(schema: S, value: unknown, under = ''): z.output<S> {
  const result = schema.safeParse(value, { error: inPlainWords })
  if (result.success) return result.data
  const errors = result.error.issues.flatMap((issue) => fieldErrors(issue, under))
  throw new Problem(invalidRequest, sentence(errors), { errors })
}

function fieldErrors(issue: z.core.$ZodIssue, under: string): FieldError[] {
  const path = under + issue.path.map((step) => `/${pointerStep(String(step))}`).join('')
  if (issue.code !== 'unrecognized_keys') return [{ pointer: path, code: codeOf(issue), message: issue.message }]
  return issue.keys.map((key) => ({
    pointer: `${path}/${pointerStep(key)}`,
    code: 'unknown_field',
    message: 'There is no such field.',
  }))
}

/** A check of our own may name a code. */
const codeOf = (issue: z.core.$ZodIssue): string =>
  issue.code === 'custom' && typeof issue.params?.code === 'string' ? issue.params.code : issue.code

const pointerStep = (step: string): string => step.replaceAll('~', '~0').replaceAll('/', '~1')

function sentence(errors: FieldError[]): string {
  const [first] = errors
  if (!first) return 'The request does not fit its schema.'
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''
  return `${first.pointer.slice(0, 200) || 'The body'}: ${first.message}${more}`
}

/** Query parameters as an object; one that comes twice is a list. */
export function readQuery(url: string): Record<string, string | string[]> {
  const query: Record<string, string | string[]> = Object.create(null)
  for (const [name, value] of new URL(url).searchParams) {
    if (value.includes('\0')) throw invalidQuery(name, 'must not contain a NUL character')
    const before = query[name]
    query[name] = before === undefined ? value : [before, value].flat()
  }
  return query
}

const invalidQuery = (name: string, message: string): Problem =>
  new Problem(invalidRequest, `/query/${name.slice(0, 100)}: ${message}`, {
    errors: [{ pointer: `/query/${pointerStep(name)}`, code: 'invalid_format', message }],
  })
