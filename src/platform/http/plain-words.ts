import type { z } from 'zod'

/** What a field must be, where its schema has no words of its own for that. Undefined: zod's own words. */
export function inPlainWords(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.input === undefined && issue.code === 'invalid_type') return 'is missing'
  if (issue.code === 'invalid_type') return TYPES[issue.expected]
  if (issue.code === 'invalid_value') return `must be ${oneOf(issue.values.map(String))}`
  if (issue.code === 'too_small') return `must ${bound(issue.origin, 'at least', issue.minimum)}`
  if (issue.code === 'too_big') return `must ${bound(issue.origin, 'at most', issue.maximum)}`
  return undefined
}

const oneOf = (values: string[]): string => (values.length > 1 ? `one of ${values.join(', ')}` : values.join(''))

const TYPES: Record<string, string> = {
  number: 'must be a number',
  int: 'must be a whole number',
  string: 'must be a text',
  boolean: 'must be true or false',
  array: 'must be a list',
  object: 'must be an object',
}

const COUNTED: Record<string, string> = { string: 'character', array: 'entry', set: 'entry' }

function bound(origin: string, words: string, limit: number | bigint): string {
  const unit = COUNTED[origin]
  if (unit === undefined) return `be ${words} ${limit}`
  return `have ${words} ${limit} ${limit === 1 ? unit : unit.replace(/y$/, 'ie').concat('s')}`
}
