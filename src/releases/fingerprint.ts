import { createHash } from 'node:crypto'
import { type Result, tasksOf } from './aggregate.ts'
import { canonicalJson, type Json } from './canonical-json.ts'
import type { Cell } from './cohort.ts'

/**
 * Stands for all results of a repository: it changes when one of them does, and only then. Ids, times, the release
 * before it and what somebody selects are not in it.
 */
export const fingerprint = (results: readonly Result[], approved: Iterable<string>): string =>
  sha256(results, [...approved].sort())

/** The same for what a release with these settings would show. */
export const contentHash = (chosen: readonly Result[]): string => sha256(chosen, tasksOf(chosen))

/** Of the canonical JSON of `{settings, tasks, version}`, put together from that of each setting. */
function sha256(results: readonly Result[], tasks: string[]): string {
  const settings = results.toSorted((a, b) => (a.id < b.id ? -1 : 1)).map(textOf)
  const text = `{"settings":[${settings.join(',')}],"tasks":${canonicalJson(tasks)},"version":1}`
  return createHash('sha256').update(text).digest('hex')
}

const texts = new WeakMap<Result, string>()

/** Asked for with every selection, and long. */
function textOf(result: Result): string {
  const text = texts.get(result) ?? canonicalJson(factsOf(result))
  texts.set(result, text)
  return text
}

const factsOf = (result: Result): Json => ({
  id: result.id,
  model: { ...result.model },
  ...{ harness: result.harness, reasoningLevel: result.reasoningLevel },
  ...{ provider: result.provider, custom: result.custom, isolation: result.isolation },
  cohort: result.cohort && { ...result.cohort },
  ...{ errored: result.errored, voided: result.voided, reason: result.reason ?? null },
  results: result.cells.map(cellFacts),
})

const cellFacts = ({ task, passed, costMicros, costSource, trials, passes, usage }: Cell): Json => [
  ...[task, passed, costMicros, costSource, trials, passes],
  usage && [usage.input, usage.cacheRead, usage.cacheWrite, usage.output, usage.reasoning],
]
