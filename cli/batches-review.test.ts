// What somebody sees who decides: in words, with the tests and what each of their assertions stands on.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import type { Execution } from '../src/taskgen/execution/judge-runs.ts'
import type { DifficultyEstimate, ReviewVerdict } from '../src/taskgen/review/review.ts'
import { done } from '../src/taskgen/stage-result.ts'
import type { ValidationReport } from '../src/taskgen/validation/validate-task.ts'
import { smallTask } from '../test/support/archives.ts'
import { assay } from '../test/support/assay-command.ts'
import { openGenerationLab, startGenerationApp } from '../test/support/generating.ts'
import { createScriptedStages, doneAt, type StageScript } from '../test/support/taskgen/scripted-stages.ts'

const TESTS = 'def test_ranks():\n\tassert rank([1, 2]) == [2, 1]\n'
const RUN = { cpus: 2, isShuffled: false, daysAhead: null, passed: 1, failed: 1, seconds: 1, cpuSeconds: 1 }
const TRIAL = { reward: 1, passed: 2, notPassed: 0, seconds: 1 }

const execution = {
  failToPass: ['t.py::test_ranks'],
  passToPass: ['t.py::test_low'],
  guards: [],
  buildErrors: [],
  newTests: [],
  unstable: [],
  medianSec: 1,
  runs: Array.from({ length: 8 }, () => ({ ...RUN, variant: 'fixed' as const })),
  ablation: { groups: 3, necessary: 2, mutants: 4, noticed: 3, survivors: [], runs: 9, cpuSeconds: 4.5 },
  messages: { 't.py::test_ranks': 'assert [1, 2] == [2, 1]\nmore' },
} satisfies Omit<Execution, 'lists' | 'plan' | 'failsByAssertion'> & Execution['lists']

const validation = {
  digest: 'sha256:0',
  isolation: 'none',
  nop: [TRIAL, TRIAL, TRIAL],
  oracle: [TRIAL, TRIAL],
  gold: TRIAL,
  cheats: [{ id: 'network', what: 'reaches the world', outcome: 'lost' }],
  strength: 'weak',
  weakness: 'The tests load files of the submission.',
  winners: [],
} satisfies ValidationReport

const review = {
  decision: { kind: 'accepted' },
  passes: [
    {
      kind: 'read',
      rounds: 1,
      reading: {
        items: [],
        alternative: '',
        minutes: 12,
        assertions: [{ number: 1, sentence: 'the largest\ncomes first', base: null }],
      },
      uncovered: [],
    },
  ],
  assertions: [{ number: 1, test: 'test_rank', text: 'assert rank([1, 2]) == [2, 1]' }],
  minutes: [12, 20],
  flags: [],
  model: { catalogId: 'openai/gpt-5.4', provider: 'openai', name: 'gpt-5.4' },
  bill: { costMicros: 1, costSource: 'metered', calls: 1, modelsServed: [] },
} satisfies ReviewVerdict

const difficulty = {
  prior: 'medium',
  judged: 'easy',
  final: 'easy',
  confidence: 'low',
} satisfies DifficultyEstimate

const evidence = (found: Partial<Record<keyof StageScript, unknown>>): StageScript =>
  Object.fromEntries(
    Object.entries(found).map(([stage, told]) => [
      stage,
      (making: Parameters<typeof doneAt>[1]) =>
        done({ ...doneAt(stage as keyof StageScript, making), evidence: JSON.parse(JSON.stringify(told)) }),
    ]),
  )

test('shows runs, trials, reviews and tests of a task', async () => {
  await using app = await startGenerationApp()
  const stages = createScriptedStages({
    ...evidence({
      split: { tests: ['t.py'], patch: '' },
      environment: { foundBy: 'rules', runner: 'pytest', health: { tests: 13, passed: 12, seconds: 1 } },
      execution,
      validation,
      review,
      difficulty,
      authoring: { specSource: 'diff', rounds: 2, warnings: [], pinned: [] },
      lint: { findings: [] },
    }),
    assembly(making, { target }) {
      const toml = `schema_version = "1.4"\n[task]\nname = "lab/${making.taskId}"\n`
      const files = smallTask({ 'instruction.md': 'Do it.\n', 'task.toml': toml, 'tests/grader/hidden/t.py': TESTS })
      for (const [path, content] of Object.entries(files)) {
        mkdirSync(dirname(join(target, path)), { recursive: true })
        writeFileSync(join(target, path), content)
      }
      return done(doneAt('assembly', making))
    },
  })
  const lab = await openGenerationLab(app, { changes: { easy: 1, medium: 0, hard: 0 }, stages })
  const { runId, tasks } = await lab.made({ easy: 1 })
  const args = ['batches', 'show', runId, tasks[0].taskId, '--repo', `lab/${lab.place.name}`]
  const { out } = await assay(args, { env: { ASSAY_URL: app.url, ASSAY_KEY: app.adminKey } })
  const said = out.split('\n').map((line) => line.replace(/\((?:\d+\.\d s|cached)\) /, ''))
  expect(said).toEqual(
    expect.arrayContaining([
      'Tests: t.py',
      '    assert rank([1, 2]) == [2, 1]',
      '  environment built by rules, for pytest; 12 of 13 tests of the base pass offline',
      '  execution runs in fresh sandboxes: 8; necessary parts of the change: 2 of 3; altered solutions that fail: 3 of 4; pass-to-pass tests: 1; guards: 0; fail-to-pass tests:',
      '      t.py::test_ranks: assert [1, 2] == [2, 1]',
      '  authoring written from the change itself, because its discussion says little, in 2 rounds',
      '  lint no findings',
      '  validation the no-op failed each time (3), the reference solution passed each time (2); cheats: 1 tried, none passes',
      '  review passes by openai/gpt-5.4: 1; estimated minutes: 12, 20; assertions and their support:',
      '      assert rank([1, 2]) == [2, 1]  <-  the largest comes first',
      '  difficulty easy; by size medium, by review easy; confidence low',
    ]),
  )
})
