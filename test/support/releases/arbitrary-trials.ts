import fc from 'fast-check'
import type { TrialOutcome } from '../../../src/comparisons/outcome.ts'
import type { SettingFact } from '../../../src/releases/aggregate.ts'

/** Builds a setting from its id. */
export const setting = (id: string, over: Partial<SettingFact> = {}): SettingFact => {
  const [catalogId = '', harness = '', reasoningLevel = ''] = id.split('|')
  return {
    id,
    model: { catalogId, name: catalogId, label: catalogId.toUpperCase() },
    harness,
    reasoningLevel,
    provider: 'lab',
    custom: false,
    isReference: false,
    ...over,
  }
}

export const trial = (over: Partial<TrialOutcome> & Pick<TrialOutcome, 'setting' | 'task'>): TrialOutcome => ({
  comparison: 1,
  comparedAt: 1000,
  attempt: 1,
  state: 'passed',
  isVoided: false,
  harnessVersion: '1',
  sandbox: 'local',
  verifyMode: 'workspace',
  isolation: 'none',
  costMicros: 1000,
  costSource: 'gateway',
  usage: null,
  resources: null,
  agentSeconds: null,
  trial: [over.comparison ?? 1, over.setting, over.task, over.attempt ?? 1].join(' '),
  ...over,
})

export const SETTINGS = ['a|x|low', 'b|x|low', 'b|y|high', 'c|x|none']
export const TASKS = ['t1', 't2', 't3', 't4', 't5', 't6']

const arbitraryTrial = fc
  .record({
    setting: fc.constantFrom(...SETTINGS),
    task: fc.constantFrom(...TASKS),
    comparison: fc.integer({ min: 1, max: 4 }),
    attempt: fc.integer({ min: 1, max: 3 }),
    state: fc.constantFrom('passed', 'failed', 'errored'),
    isVoided: fc.boolean().map((odd) => odd),
    harnessVersion: fc.constantFrom('1', '2'),
    verifyMode: fc.constantFrom('workspace', 'snapshot'),
    costMicros: fc.option(fc.integer({ min: 0, max: 5_000_000 }), { nil: null, freq: 20 }),
  })
  .map((facts) => trial({ ...facts, comparedAt: 1000 * facts.comparison }))

/** Arbitrary trials of several comparisons, cohorts and attempts, with voids. No trial occurs twice. */
export const trials = fc.uniqueArray(arbitraryTrial, { maxLength: 60, selector: (each) => each.trial })
