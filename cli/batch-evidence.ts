import type { BatchTaskDetail } from '../src/batches/schema.ts'

/** Evidence as JSON. Each stage has its own fields, and older batches may have others. */
type EvidenceFields = Record<string, unknown>
type EvidenceStage = BatchTaskDetail['evidence']['stages'][number]

const LINES_SHOWN_MAX = 20
const JSON_LENGTH_MAX = 2000

/** Describes the evidence of a stage. Evidence of an unknown shape is printed as JSON. */
export function formatStage({ stage, seconds, reused, evidence }: EvidenceStage): string[] {
  const lines =
    evidence === null || typeof evidence !== 'object'
      ? undefined
      : STAGE_DESCRIPTIONS[stage]?.(evidence as EvidenceFields)
  const head = `${stage} (${reused ? 'cached' : `${seconds.toFixed(1)} s`})`
  if (lines === undefined || lines.length === 0)
    return [`${head} ${JSON.stringify(evidence)}`.slice(0, JSON_LENGTH_MAX)]
  const [first = '', ...more] = lines
  return [`${head} ${first}`, ...more.map((line) => `    ${line}`)]
}

/** Functions that describe the evidence of a stage, or return undefined if the evidence has an unknown shape. */
const STAGE_DESCRIPTIONS: Record<string, (evidence: EvidenceFields) => string[] | undefined> = {
  split: ({ tests }) => (isTextList(tests) ? ['tests of the pull request:', ...shortenList(tests)] : undefined),
  environment: describeEnvironment,
  execution: describeExecution,
  authoring: ({ specSource, rounds }) =>
    arePresent(specSource, rounds)
      ? [
          `written from ${SPEC_SOURCES[String(specSource)] ?? specSource}, in ${rounds} ${rounds === 1 ? 'round' : 'rounds'}`,
        ]
      : undefined,
  lint: ({ findings }) => (Array.isArray(findings) && findings.length === 0 ? ['no findings'] : undefined),
  validation: describeValidation,
  review: describeReview,
  difficulty: ({ prior, judged, final, confidence }) =>
    arePresent(prior, final)
      ? [`${final}; by size ${prior}, by review ${judged ?? '-'}; confidence ${confidence}`]
      : undefined,
}

/** Names of the sources from which an instruction is written. */
const SPEC_SOURCES: Record<string, string> = {
  text: 'the discussion of the change',
  diff: 'the change itself, because its discussion says little',
}

function describeEnvironment({ foundBy, runner, health }: EvidenceFields): string[] | undefined {
  const { tests, passed } = toFields(health)
  if (!arePresent(foundBy, runner, tests, passed)) return undefined
  const origin = foundBy === 'model' ? "built by a model's recipe" : 'built by rules'
  return [`${origin}, for ${runner}; ${passed} of ${tests} tests of the base pass offline`]
}

function describeExecution({
  failToPass,
  passToPass,
  guards,
  runs,
  ablation,
  messages,
}: EvidenceFields): string[] | undefined {
  if (!isTextList(failToPass) || !isTextList(passToPass) || !Array.isArray(runs)) return undefined
  const { groups, necessary, mutants, noticed, survivors } = toFields(ablation)
  const failures = toFields(messages)
  const failing = failToPass.map((id) =>
    typeof failures[id] === 'string' ? `${id}: ${failures[id].split('\n', 1)[0]}` : id,
  )
  return [
    `runs in fresh sandboxes: ${runs.length}; necessary parts of the change: ${necessary} of ${groups}; altered solutions that fail: ${noticed ?? 0} of ${mutants ?? 0}; pass-to-pass tests: ${passToPass.length}; guards: ${isTextList(guards) ? guards.length : 0}; fail-to-pass tests:`,
    ...shortenList(failing),
    ...(Array.isArray(survivors) ? survivors.map((each) => formatSurvivor(toFields(each))) : []),
  ]
}

const formatSurvivor = ({ kind, path, line, before, after }: EvidenceFields): string =>
  kind === 'part'
    ? `tests pass without ${path}:${line}: ${oneLine(before)}`
    : `tests pass with ${path}:${line} altered: ${oneLine(before)}  ->  ${oneLine(after)}`

function describeValidation({ nop, oracle, cheats, winners, weakness }: EvidenceFields): string[] | undefined {
  if (!Array.isArray(nop) || !Array.isArray(oracle) || !Array.isArray(cheats) || !isTextList(winners)) return undefined
  const tried = `cheats: ${cheats.length} tried, ${winners.length === 0 ? 'none passes' : `these pass: ${winners.join(', ')}`}`
  return [
    `the no-op failed each time (${nop.length}), the reference solution passed each time (${oracle.length}); ${tried}`,
    ...(typeof weakness === 'string' ? [`weakness in the files: ${weakness}`] : []),
  ]
}

/**
 * Describes the reviews, with the sentence of the instruction that supports each assertion according to the first
 * review.
 */
function describeReview({
  passes,
  assertions,
  minutes,
  model,
  flags,
  challenge,
}: EvidenceFields): string[] | undefined {
  if (!Array.isArray(passes) || !Array.isArray(minutes)) return undefined
  const reviews = passes.map((pass) => toFields(toFields(pass).reading)).filter(({ items }) => Array.isArray(items))
  const firstReview = reviews[0]?.assertions
  const supports = Array.isArray(firstReview) ? firstReview.map(toFields) : []
  const testAssertions = Array.isArray(assertions) ? assertions.map(toFields) : []
  const sameProvider = Array.isArray(flags) && flags.includes('self_verified') ? ', same provider as the author' : ''
  return [
    `passes by ${toFields(model).catalogId}${sameProvider}: ${reviews.length}; estimated minutes: ${minutes.join(', ')}; assertions and their support:`,
    ...shortenList(testAssertions.map((each) => formatSupport(each, supports))),
    ...describeChallenge(toFields(challenge)),
  ]
}

/** Describes the search for a wrong solution that passes. */
function describeChallenge({ attempt, survivors, verdict }: EvidenceFields): string[] {
  if (!arePresent(verdict)) return []
  const { sentence, isPassed } = toFields(attempt)
  const result = sentence ? `against "${oneLine(sentence)}", ${isPassed ? 'passes' : 'fails'}` : 'none'
  const count = Array.isArray(survivors) ? survivors.length : 0
  return [`wrong solution of the verifier model: ${result}; wrong survivors: ${count}; verdict: ${verdict}`]
}

function formatSupport({ number, test, text }: EvidenceFields, supports: readonly EvidenceFields[]): string {
  const { sentence } = supports.find((each) => each.number === number) ?? {}
  return `${oneLine(text || test)}  <-  ${oneLine(sentence ?? 'nothing')}`
}

const oneLine = (text: unknown): string => String(text).replaceAll(/\s+/g, ' ').trim()

const toFields = (value: unknown): EvidenceFields =>
  typeof value === 'object' && value !== null ? (value as EvidenceFields) : {}

const isTextList = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((each) => typeof each === 'string')

const arePresent = (...values: unknown[]): boolean => values.every((value) => value !== undefined && value !== null)

const shortenList = (lines: readonly string[]): string[] => [
  ...lines.slice(0, LINES_SHOWN_MAX),
  ...(lines.length > LINES_SHOWN_MAX ? [`and ${lines.length - LINES_SHOWN_MAX} more`] : []),
]
