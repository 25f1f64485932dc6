import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ScriptInput } from '../../../samples/provider/script.ts'
import { hasPart, isLongRun, requiredParts } from '../../../test/support/parts.ts'
import type { Usage } from '../../gateway/wire.ts'
import { openWorkbench, type SandboxName, taskToml, writeTask } from '../../trials/testing/workbench.ts'
import { type Installing, install } from '../bundles/install.ts'
import type { Harness } from '../harness.ts'
import { HarnessUnfit } from '../harness-unfit.ts'
import { bundlesFolder, KEY, type ModelBench, openModelBench, type Saying } from './model-bench.ts'

const SANDBOXES: readonly SandboxName[] = ['bwrap', 'docker']
const INSTALL_MS = 600_000

export type Promised = {
  /** Everything that it says exactly, the first being what the other cases are tried with. */
  sayings: [Saying, ...Saying[]]
  /** Whether some of it is tried each time, and not in the long run only. */
  isTriedAlways?: boolean
  /** Of one that a workspace has sent. */
  openSent?: Installing['openSent']
}

/** What every harness promises, seen with the real program in a real sandbox, through the real gateway. */
export function keepsTheContract(harness: Harness, promised: Promised): void {
  const sandboxes = isLongRun() ? SANDBOXES : promised.isTriedAlways ? SANDBOXES.slice(0, 1) : []
  describe.skipIf(sandboxes.length === 0)(`${harness.id} ${harness.version}`, () => {
    test('each saying has a protocol of its own, and what cannot be said has none', () => {
      for (const { protocol, model, level, wireLevel } of promised.sayings) {
        const traits = { model, provider: 'test', protocols: [protocol], contextTokens: 1, outputTokens: 1 }
        expect(harness.protocolFor(traits, level, wireLevel)).toBe(protocol)
        expect(harness.protocolFor({ ...traits, protocols: [] }, level, wireLevel)).toBeUndefined()
      }
    })
    for (const sandbox of sandboxes)
      describe.skipIf(!hasPart(sandbox) || !hasPart('harnesses'))(`in ${sandbox}`, () =>
        inSandbox(harness, promised, sandbox),
      )
  })
}

const SOLVES: ScriptInput = {
  tasks: [
    {
      match: 'hello.txt',
      turns: [
        { say: 'I write the file.', run: "printf 'hello' > /app/hello.txt" },
        { run: 'cat /app/hello.txt' },
        { say: 'It is there.' },
      ],
    },
  ],
}
const SPEAKS: ScriptInput = { tasks: [{ match: 'hello.txt', turns: [{ say: 'I have thought about it.' }] }] }
const NEVER_ENDS: ScriptInput = {
  tasks: [{ match: 'hello.txt', endless: true, turns: [{ run: 'date' }, { run: 'pwd' }, { run: 'ls -a' }] }],
}
/** What a few calls cost. */
const SMALL_BUDGET_MICROS = 700_000

function inSandbox(harness: Harness, { sayings, openSent }: Promised, sandbox: SandboxName): void {
  const tools = openTools(harness, sandbox, openSent)
  const [first] = sayings
  const share = isLongRun() && sandbox === 'bwrap' ? sayings : sayings.slice(0, 1)

  test('solves a task, and the ledger has what the provider counted', async () => {
    const { record, totals, calls, folder } = await tools.run(first, SOLVES)
    expect(record).toMatchObject({ state: 'passed', class: 'verified' })
    expect(totals).toMatchObject({ costSource: 'metered', levelMismatches: 0, helperCalls: 0, refusals: {} })
    expect(totals.usage).toEqual(counted(calls))
    expect(totals.calls).toMatchObject({ succeeded: calls.length, failed: 0, cut: 0, open: 0, lost: 0 })
    expect(filesWith(folder, KEY)).toEqual([])
    const { steps } = JSON.parse(readFileSync(join(folder, 'trajectory-1.json'), 'utf8'))
    expect(JSON.stringify(steps)).toContain('/app/hello.txt')
    expect(JSON.stringify(steps.at(-1))).toContain('It is there.')
  })

  test.each(share)('says $level to $model in $protocol', async (saying) => {
    const { totals, calls } = await tools.run(saying, SPEAKS)
    expect(calls.length).toBeGreaterThan(0)
    expect(calls.map(({ protocol }) => protocol)).toEqual(calls.map(() => saying.protocol))
    expect(totals).toMatchObject({ levelMismatches: 0, levelAsked: null })
  })

  test.each([
    ['a key that is wrong', { keys: ['sk-another'] }],
    ['a model that is not there', { models: ['another'] }],
  ])('%s is an error of the operator', async (_name, fault) => {
    const { record } = await tools.run(first, { ...SOLVES, ...fault })
    expect(record).toMatchObject({ state: 'errored', class: 'operator_error', reward: null })
  })

  describe.skipIf(!isLongRun())('in the long run', () => {
    test.each([429, 500])('survives %i', async (status) => {
      const faults = [{ status, times: 2, ...(status === 429 ? { retryAfter: '1' } : {}) }]
      const { record, totals, calls } = await tools.run(first, { ...SOLVES, faults })
      expect(record).toMatchObject({ state: 'passed' })
      expect(calls.filter((call) => call.status === status)).toHaveLength(2)
      expect(totals.usage).toEqual(counted(calls))
    })

    test('stops at its deadline', async () => {
      const { record } = await tools.run(
        first,
        { ...SOLVES, faults: [{ hang: 'before', times: 1000 }] },
        { seconds: 12 },
      )
      expect(record).toMatchObject({ state: 'failed', class: 'agent_timeout', limit: 'seconds' })
    })

    test('stops at its budget', async () => {
      const { record, totals } = await tools.run(first, NEVER_ENDS, { budgetMicros: SMALL_BUDGET_MICROS })
      expect(record).toMatchObject({ state: 'failed', limit: null })
      expect(totals.refusals.budget).toBeGreaterThan(0)
      expect(totals.costMicros).toBeLessThanOrEqual(SMALL_BUDGET_MICROS)
    })

    test('reaches for nothing but its model', async () => {
      const toml = { environment: 'network_mode = "allowlist"\nallowed_hosts = ["assay.invalid"]' }
      const { record } = await tools.run(first, SOLVES, { toml })
      expect(record.state).toBe('passed')
      expect(record.steps[0]?.network.agent.egress).toMatchObject({
        connections: 0,
        reached: [],
        refused: { count: 0 },
      })
    })
  })
}

type Wish = { seconds?: number; budgetMicros?: number; toml?: Parameters<typeof taskToml>[0] }

const SECONDS = 120

function openTools(harness: Harness, sandbox: SandboxName, openSent: Installing['openSent']) {
  let models: ModelBench
  let bench: Awaited<ReturnType<typeof openWorkbench>>
  let trouble: Error | undefined
  let count = 0
  const onProgress = () => {}
  beforeAll(async () => {
    models = await openModelBench()
    bench = await openWorkbench(sandbox)
    const folder = await bundlesFolder()
    const signal = AbortSignal.timeout(INSTALL_MS)
    const options = { folder, signal, onProgress, ...(openSent && { openSent }) }
    if (harness.bundle) trouble = await install(harness.bundle, options).then(nothing, asTrouble)
  }, INSTALL_MS * 2)
  // A registry that cannot be reached says nothing about a harness.
  beforeEach(({ skip }) => {
    if (trouble && !requiredParts().includes('harnesses')) skip(trouble.message)
  })
  afterAll(async () => {
    await bench?.[Symbol.asyncDispose]()
    await models?.[Symbol.asyncDispose]()
  }, 60_000)

  const run = async (saying: Saying, script: ScriptInput, wish: Wish = {}) => {
    count += 1
    const folder = join(bench.folder, `out-${count}`)
    const task = writeTask(join(bench.folder, `task-${count}`), {
      'task.toml': taskToml({ agentSec: wish.seconds ?? SECONDS, ...wish.toml }),
      'instruction.md': 'Write the word hello to /app/hello.txt.\n',
    })
    const { place: model, totals } = await models.open(harness, saying, script, wish.budgetMicros ?? null)
    const bundles = { folder: await bundlesFolder(), ...(openSent && { openSent }) }
    const record = await bench.run(task, harness, 'workspace', { isProven: true, outputFolder: folder, model, bundles })
    return { record, totals: await totals(), calls: models.provider.calls(), folder }
  }
  return { run }
}

const nothing = (): undefined => undefined

function asTrouble(error: unknown): Error {
  if (error instanceof HarnessUnfit) return error
  throw error
}

type Booked = ReturnType<ModelBench['provider']['calls']>[number]

/** What the provider bills, in all. */
const counted = (calls: Booked[]): Usage =>
  calls.reduce<Usage>((sum, { usage }) => (usage ? add(sum, usage) : sum), {
    ...{ input: 0, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0, output: 0, reasoning: 0 },
  })

const add = (one: Usage, other: Usage): Usage => ({
  input: one.input + other.input,
  cacheRead: one.cacheRead + other.cacheRead,
  cacheWrite5m: one.cacheWrite5m + other.cacheWrite5m,
  cacheWrite1h: one.cacheWrite1h + other.cacheWrite1h,
  output: one.output + other.output,
  reasoning: one.reasoning + other.reasoning,
})

const filesWith = (folder: string, text: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => readFileSync(path).includes(text))
