import { afterAll, beforeAll, expect, test } from 'vitest'
import { assay, hasTerminal, launch, onTerminal, scratchFolder } from '../test/support/assay-command.ts'

const scratch = scratchFolder()
let service: ReturnType<typeof launch>
let env: Record<string, string>

beforeAll(async () => {
  service = launch(['serve', '--data', scratch.path, '--port', '0'], {
    ASSAY_ALLOW_HOST_BASE: '1',
    ASSAY_REGISTRIES: 'samples',
    ASSAY_LOG: 'error',
    DOCKER_HOST: 'unix:///nowhere.sock',
  })
  const said = await service.ready
  env = { ASSAY_URL: /^assay ready (.*)$/m.exec(said)?.[1] ?? '', ASSAY_KEY: /assay_\w{38}/.exec(said)?.[0] ?? '' }
  await assay(['benchmarks', 'add', 'assay/quick'], { env })
})
afterAll(async () => {
  service.child.kill('SIGTERM')
  await service.exited
  scratch.remove()
})

const on = ['compare', 'assay/quick', '--sandbox', 'local']

test('Ctrl-C ends the watch; the comparison continues and can be watched again', async () => {
  const watching = launch([...on, '--attempts', '2'], env)
  watching.ready.catch(() => undefined) // it is no service
  const id = await firstId()
  watching.child.kill('SIGINT')
  expect(await watching.exited).toBe(0)
  expect(watching.err.text()).toContain(`assay comparisons watch assay/quick ${id}`)

  const again = await assay(['comparisons', 'watch', 'assay/quick', id], { env })
  expect(again.code, again.err).toBe(0)
  expect(again.out).toMatch(/^reference\|oracle\|none +5\/5 +100\.0 % .* yes$/m)
  expect(again.out).toMatch(/^reference\|nop\|none +0\/5 +0\.0 % /m)
  const json = await assay(['--json', 'comparisons', 'show', 'assay/quick', id], { env })
  expect(JSON.parse(json.out)).toMatchObject({ id, state: 'completed', trials: { total: 20, passed: 10 } })

  const answer = 'Only reference settings were compared, so there is nothing to recommend'
  expect(again.out).toContain(`\n${answer}`)
  expect(again.out).toMatch(/^reference\|oracle\|none +reference\|nop\|none +5 +0 +0 +0 +\+100\.0 .* better$/m)
  expect(JSON.parse(json.out)).toMatchObject({
    answer: { text: expect.stringContaining(answer) },
    pairs: [{ wonByA: 5 }],
  })
  const baseline = ['--baseline', 'reference|oracle|none']
  const pairs = await assay(['comparisons', 'pairs', 'assay/quick', id, ...baseline], { env })
  expect(pairs.out).toMatch(/^reference\|nop\|none +reference\|oracle\|none +0 +5 +0 +0 +-100\.0 .* worse$/m)
  const same = await assay(['comparisons', 'diff', 'assay/quick', id, id], { env })
  expect(same.out).toMatch(/^reference\|oracle\|none += {2,}\S+ +5 +0 +0 +0\.0 .* cannot tell$/m)
  const diff = await assay(['--json', 'comparisons', 'diff', 'assay/quick', id, id], { env })
  expect(JSON.parse(diff.out)).toMatchObject({ base: id, comparison: id, tasks: { shared: 5 } })
  const unknown = await assay(['comparisons', 'pairs', 'assay/quick', id, '--baseline', 'none'], { env })
  expect(unknown).toMatchObject({ code: 1, err: expect.stringContaining('Unknown setting none') })
})

/** The one that is there, once it is. */
async function firstId(): Promise<string> {
  for (;;) {
    const { out } = await assay(['--json', 'comparisons', 'list', 'assay/quick'], { env })
    const [first] = JSON.parse(out).evaluations
    if (first) return first.id
  }
}

test.runIf(hasTerminal)('shows progress, spend and a table that is updated in place on a terminal', async () => {
  const { out, code } = await onTerminal([...on, '--yes', '--skip-completed', '--attempts', '3'], env, () => undefined)
  expect(code, out).toBe(0)
  expect(out).toMatch(/\[[= ]{24}\] \d+\/30 (submitting|running|completed), \$0\.00/)
  expect(out).toContain('\u001b[J')
  expect(out).toContain('FRONTIER')
})

const countComparisons = async (): Promise<number> => {
  const { out } = await assay(['--json', 'comparisons', 'list', 'assay/quick'], { env })
  return JSON.parse(out).evaluations.length
}

test('a quote is printed without starting anything, and before every comparison', async () => {
  const before = await countComparisons()
  const quoted = await assay([...on, '--quote', '--attempts', '3', '--concurrency', '2'], { env })
  expect(quoted).toMatchObject({ code: 0, err: '' })
  expect(quoted.out).toMatch(/^30 trials \(5 tasks × 2 settings × 3 attempts\), about .* with 2 at a time$/m)
  expect(quoted.out).toMatch(/^reference\|nop\|none +\$0\.00 +\$0\.00-\$0\.00 +\$0\.00 +free +\d+ s$/m)
  expect(quoted.out).toContain(
    '\n5 tasks with 3 attempts show differences above 42 points; 10 tasks lower that to 29.\n',
  )
  const json = await assay(['--json', ...on, '--quote'], { env })
  expect(JSON.parse(json.out)).toMatchObject({ trials: 10, perSetting: [{ source: 'free' }, { source: 'free' }] })
  expect(await countComparisons()).toBe(before)

  const started = await assay(['--json', ...on, '--skip-completed', '--trial-budget', '2'], { env })
  expect(started.code, started.err).toBe(0)
  expect(started.err).toContain('Expected cost: $0.00')
  const { quote, trialBudgetUsd, answer } = JSON.parse(started.out)
  expect([quote.trials, trialBudgetUsd, answer.text]).toEqual([10, 2, expect.any(String)])
  const detached = await assay(['--json', ...on, '--skip-completed', '--detach'], { env })
  expect(JSON.parse(detached.out)).toMatchObject({ state: 'submitting', quote: { trials: 10 } })
})

test.runIf(hasTerminal).each([
  ['no', 'n'],
  ['Enter', '\r'],
  ['Ctrl-C', '\u0003'],
])('on a terminal, %s at the quote starts nothing and exits with 130', async (_, typed) => {
  const before = await countComparisons()
  const { out, code } = await onTerminal(on, env, answerOnce(typed))
  expect([code, out]).toEqual([130, expect.stringContaining('Nothing was started.')])
  expect(out).toMatch(/10 trials .*reference\|oracle\|none .*Start this comparison\?/s)
  expect(await countComparisons()).toBe(before)
})

test.runIf(hasTerminal)('starts the comparison if the quote is confirmed on a terminal', async () => {
  const { out, code } = await onTerminal([...on, '--skip-completed'], env, answerOnce('y'))
  expect(code, out).toBe(0)
  expect(out).toContain('FRONTIER')
})

/** Types once, when the question is shown. */
function answerOnce(typed: string): (shown: string) => string | undefined {
  let isAnswered = false
  return (shown) => {
    if (isAnswered || !shown.includes('Start this comparison?')) return undefined
    isAnswered = true
    return typed
  }
}

test('a comparison that is not running cannot be paused', async () => {
  const { out } = await assay([...on, '--detach', '--harness', 'nop'], { env })
  await assay(['comparisons', 'cancel', 'assay/quick', out.trim()], { env })
  const refused = await assay(['comparisons', 'pause', 'assay/quick', out.trim()], { env })
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('The comparison is canceled.')])
})

test('a comparison is canceled, listed and resumed', async () => {
  const { out } = await assay([...on, '--detach', '--harness', 'nop'], { env })
  const id = out.trim()
  const canceled = await assay(['comparisons', 'cancel', 'assay/quick', id], { env })
  expect(canceled.err).toContain('The comparison is canceled')
  // It has no trials yet if it was canceled before it was planned.
  expect((await assay(['comparisons', 'list', 'assay/quick'], { env })).out).toMatch(
    new RegExp(`^${id} +canceled +[0-4]/[05] `, 'm'),
  )
  const resumed = await assay(['comparisons', 'resume', 'assay/quick', id], { env })
  expect(resumed).toMatchObject({
    code: 0,
    out: '',
    err: expect.stringMatching(
      new RegExp(`^The comparison is \\w+\\. To watch: assay comparisons watch assay/quick ${id}\n$`),
    ),
  })
  const ended = await assay(['comparisons', 'watch', 'assay/quick', id], { env })
  expect(ended.code, ended.err).toBe(0)
})

test('refuses invalid comparisons with a message', async () => {
  const cases: [string[], RegExp][] = [
    [['compare', 'quick'], /org\/name/],
    [['compare'], /Give either a benchmark as org\/name or a repository/],
    [['compare', 'assay/quick', '--repo', 'lab/demo'], /or a repository with --repo/],
    [['compare', '--repo', 'lab'], /owner\/name/],
    [['compare', '--repo', 'lab/demo', '--task', 'one'], /lab\/demo is not connected/],
    [[...on, '--task', 'gree'], /No task matches gree\. There are: .*greet-in-bash/],
    [['comparisons', 'show', 'assay/quick'], /Give either a benchmark/],
    [['comparisons', 'show', 'a/b', 'c/d', '7'], /Give one comparison/],
    [['compare', 'assay/none'], /not in this workspace/],
    [[...on, '--model', 'gpt'], /Unknown model gpt\. Available: reference/],
    [[...on, '--harness', 'codex'], /^error: --harness: /],
    [['compare', 'assay/quick', '--sandbox', 'moon'], /no sandbox moon/],
    [[...on, '--attempts', 'many'], /--attempts must be a number/],
    [[...on, '--attempts', '11'], /^error: --attempts: must be at most 10 \(/],
    [[...on, '--attempts', '0'], /^error: --attempts: must be at least 1 \(/],
    [[...on, '--trial-budget', 'much'], /--trial-budget must be a number/],
    [[...on, '--trial-budget', '-1'], /^error: --trial-budget: must be at least 0 \(/],
    [[...on, '--id', '7'], /[Nn]ot an id/],
    [['comparisons', 'show', 'assay/quick', '00000000-0000-4000-8000-000000000000'], /Comparison .* not found/],
  ]
  for (const [args, message] of cases) {
    const { code, err } = await assay(args, { env })
    expect(code, args.join(' ')).toBeGreaterThan(0)
    expect(err).toMatch(message)
  }
})
