import type { Db } from '../../../platform/db/db.ts'
import { formatTrialId } from '../../plan.ts'
import { TrialClass } from '../../shapes/schema.ts'
import type { ComparisonAxes } from '../trials.ts'
import type { FailureGroup } from './schema.ts'
import { type FailureRow, listFailureRows } from './sql.ts'

/** Maximum number of distinct messages that are grouped. Rarer ones are left out. */
const MESSAGES_MAX = 2000
const GROUPS_MAX = 100
const SIGNATURE_LENGTH_MAX = 200
/** Bounds the time that the replacements take. */
const LINE_LENGTH_MAX = 2000

/** Groups trials that failed or have no result by class and by the part of their messages that they have in common. */
export async function listFailures(db: Db, { key, settings }: ComparisonAxes): Promise<FailureGroup[]> {
  const rows = await listFailureRows(db, key, MESSAGES_MAX)
  const groups = Map.groupBy(rows, (row) => JSON.stringify([row.state, row.class, toSignature(row.message)]))
  return [...groups.values()]
    .map((group) => toGroup(key, settings, group))
    .toSorted((a, b) => b.trials - a.trials)
    .slice(0, GROUPS_MAX)
}

function toGroup(comparison: number, settings: ComparisonAxes['settings'], group: readonly FailureRow[]): FailureGroup {
  const [first] = group
  if (!first) throw new Error('A group of failures has at least one row.')
  const positions = new Set(group.flatMap((row) => row.settings))
  return {
    state: first.state,
    class: TrialClass.parse(first.class),
    signature: toSignature(first.message),
    trials: group.reduce((sum, row) => sum + row.trials, 0),
    settings: settings.filter((_, position) => positions.has(position)).map(({ id }) => id),
    tasks: new Set(group.flatMap((row) => row.tasks)).size,
    exampleTrialId: formatTrialId({ comparison, ordinal: Math.min(...group.map((row) => row.first)) }),
  }
}

/** Replaces what differs between occurrences of the same failure: ids, then quoted names, paths and numbers. */
export function toSignature(message: string | null): string | null {
  if (message === null) return null
  const [line = ''] = message.trim().split('\n', 1)
  return line
    .slice(0, LINE_LENGTH_MAX)
    .replaceAll(/\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b/gi, '…')
    .replaceAll(/(["'`])(?:(?!\1).){1,200}\1/g, '$1…$1')
    .replaceAll(/(?<![\w.])\/[\w./-]{2,}/g, '/…')
    .replaceAll(/\d+(?:[.,]\d+)*/g, '…')
    .slice(0, SIGNATURE_LENGTH_MAX)
}
