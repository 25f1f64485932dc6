import type { BatchTaskDetail } from '../src/batches/schema.ts'

type Found = Record<string, unknown>
type Stage = BatchTaskDetail['evidence']['stages'][number]

const NAMES_MAX = 20
const JSON_MAX = 2000

/** What each stage found, in words, for somebody who decides. What has another shape than we know is shown as it is. */
export function stageLines({ stage, seconds, reused, evidence }: Stage): string[] {
  const told = evidence === null || typeof evidence !== 'object' ? undefined : WORDS[stage]?.(evidence as Found)
  const head = `${stage} (${reused ? 'known before' : `${seconds.toFixed(1)} s`})`
  if (told === undefined || told.length === 0) return [`${head} ${JSON.stringify(evidence)}`.slice(0, JSON_MAX)]
  const [first = '', ...more] = told
  return [`${head} ${first}`, ...more.map((line) => `    ${line}`)]
}

const WORDS: Record<string, (found: Found) => string[] | undefined> = {
  split: ({ tests }) => (isTexts(tests) ? ['the pull request brings these tests:', ...shortened(tests)] : undefined),
  environment: environment,
  execution: execution,
  authoring: ({ specSource, rounds }) =>
    isKnown(specSource, rounds)
      ? [`written from ${SOURCES[String(specSource)] ?? specSource}, in ${rounds} ${rounds === 1 ? 'round' : 'rounds'}`]
      : undefined,
  lint: ({ findings }) =>
    Array.isArray(findings) && findings.length === 0 ? ['nothing is given away, nothing left out'] : undefined,
  validation: proof,
  review: verdict,
  difficulty: ({ prior, judged, final, confidence }) =>
    isKnown(prior, final)
      ? [`${final}; by its size ${prior}, by its readers ${judged ?? '-'}; confidence ${confidence}`]
      : undefined,
}

const SOURCES: Record<string, string> = {
  text: 'what people said of it',
  diff: 'the change itself, because people said little of it',
}

function environment({ foundBy, runner, health }: Found): string[] | undefined {
  const { tests, passed } = fieldsOf(health)
  if (!isKnown(foundBy, runner, tests, passed)) return undefined
  const who = foundBy === 'model' ? 'a model said how it is built' : 'built by rules'
  return [`${who}, for ${runner}; ${passed} of ${tests} tests of the base pass, offline`]
}

function execution({ failToPass, passToPass, runs, ablation, messages }: Found): string[] | undefined {
  if (!isTexts(failToPass) || !isTexts(passToPass) || !Array.isArray(runs)) return undefined
  const { groups, necessary } = fieldsOf(ablation)
  const said = fieldsOf(messages)
  const turned = failToPass.map((id) => (typeof said[id] === 'string' ? `${id}: ${said[id].split('\n', 1)[0]}` : id))
  return [
    `runs in fresh sandboxes: ${runs.length}; parts of the change that are needed: ${necessary} of ${groups}; tests that pass with it and without it: ${passToPass.length}; these fail without it:`,
    ...shortened(turned),
  ]
}

function proof({ nop, oracle, cheats, winners }: Found): string[] | undefined {
  if (!Array.isArray(nop) || !Array.isArray(oracle) || !Array.isArray(cheats) || !isTexts(winners)) return undefined
  const tried = `cheats: ${cheats.length} tried, ${winners.length === 0 ? 'none wins' : `these win: ${winners.join(', ')}`}`
  return [`doing nothing failed each time (${nop.length}), the solution passed each time (${oracle.length}); ${tried}`]
}

/** With the map of what is asserted to what supports it: the first reader's. */
function verdict({ passes, minutes, model, flags }: Found): string[] | undefined {
  if (!Array.isArray(passes) || !Array.isArray(minutes)) return undefined
  const readings = passes.map((pass) => fieldsOf(fieldsOf(pass).reading)).filter(({ items }) => Array.isArray(items))
  const assertions = readings[0]?.assertions
  const own = Array.isArray(flags) && flags.includes('self_verified') ? ', of one house with the author' : ''
  return [
    `readings by ${fieldsOf(model).catalogId}${own}: ${readings.length}; minutes of work: ${minutes.join(', ')}; what is asserted, and what supports it:`,
    ...shortened(Array.isArray(assertions) ? assertions.map(supportLine) : []),
  ]
}

function supportLine(each: unknown): string {
  const { assertion, from, support } = fieldsOf(each)
  return `${oneLine(assertion)}  <-  ${from}: ${oneLine(support)}`
}

const oneLine = (text: unknown): string => String(text).replaceAll(/\s+/g, ' ').trim()

const fieldsOf = (value: unknown): Found => (typeof value === 'object' && value !== null ? (value as Found) : {})

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((each) => typeof each === 'string')

const isKnown = (...values: unknown[]): boolean => values.every((value) => value !== undefined && value !== null)

const shortened = (lines: readonly string[]): string[] => [
  ...lines.slice(0, NAMES_MAX),
  ...(lines.length > NAMES_MAX ? [`and ${lines.length - NAMES_MAX} more`] : []),
]
