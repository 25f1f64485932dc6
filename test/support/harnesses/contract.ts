import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ScriptInput } from '../../../samples/provider/script.ts'
import { decideVerdict } from '../../../src/gateway/verdict.ts'
import { addUsage, NO_USAGE, type Usage } from '../../../src/gateway/wire-protocol.ts'
import { type InstallOptions, install } from '../../../src/harnesses/bundles/install.ts'
import { type Harness, HarnessUnfit } from '../../../src/harnesses/harness.ts'
import { hasPart, isLongRun, requiredParts } from '../parts.ts'
import { testKubeconfig } from '../sandboxes/kubernetes-subject.ts'
import { IMAGE, openTrialRunner, type SandboxName, taskToml, writeTask } from '../trials/trial-runner.ts'
import { imageFor } from './harness-image.ts'
import { bundlesFolder, KEY, type LevelCase, openScriptedGateway, type ScriptedGateway } from './scripted-gateway.ts'

const SANDBOXES: readonly SandboxName[] = ['bwrap', 'docker', ...(testKubeconfig ? (['kubernetes'] as const) : [])]
const INSTALL_MS = 600_000

export type ContractOptions = {
  /** Every level that the harness can request exactly. The other tests use the first. */
  levelCases: [LevelCase, ...LevelCase[]]
  /** Runs a part of the contract in the short run too. */
  isInShortRun?: boolean
  /** False if the program prints its last message only. */
  reportsSteps?: boolean
  /** Budget of a few calls. The default suits programs that send long prompts and run many commands. */
  budgetMicros?: number
  /** Answer of the model that solves the task, for a program that offers it no tools. */
  answer?: string
  /** True if the program looks for other APIs of a model server. The gateway refuses their paths. */
  probesServer?: boolean
  /** Lists hosts, as `host:port`, that the program tries to reach although its settings forbid it. The sandbox refuses them. */
  refusedHosts?: string[]
  /** Opens the bundle of a custom harness. */
  openUploaded?: InstallOptions['openUploaded']
}

/** Tests the guarantees of every harness with the real program, a real sandbox and the real gateway. */
export function testHarnessContract(harness: Harness, promised: ContractOptions): void {
  const sandboxes = isLongRun() ? SANDBOXES : promised.isInShortRun ? SANDBOXES.slice(0, 1) : []
  describe.skipIf(sandboxes.length === 0)(`${harness.id} ${harness.version}`, () => {
    test('each level has a protocol, and none without a common protocol', () => {
      for (const { protocol, model, level, wireLevel } of promised.levelCases) {
        const traits = { model, provider: 'test', protocols: [protocol], contextTokens: 1, outputTokens: 1 }
        expect(harness.protocolFor(traits, level, wireLevel)).toBe(protocol)
        expect(harness.protocolFor({ ...traits, protocols: [] }, level, wireLevel)).toBeUndefined()
      }
    })
    for (const sandbox of sandboxes)
      describe.skipIf(!hasSandbox(sandbox) || !hasPart('harnesses'))(`in ${sandbox}`, () =>
        testInSandbox(harness, promised, sandbox),
      )
  })
}

const hasSandbox = (name: SandboxName): boolean => name === 'kubernetes' || hasPart(name)

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
/** Enough for a few calls. */
const SMALL_BUDGET_MICROS = 700_000

function testInSandbox(harness: Harness, options: ContractOptions, sandbox: SandboxName): void {
  const { levelCases, openUploaded, reportsSteps = true, refusedHosts = [], answer, probesServer } = options
  const { budgetMicros = SMALL_BUDGET_MICROS } = options
  const solves = answer === undefined ? SOLVES : { tasks: [{ match: 'hello.txt', turns: [{ say: answer }] }] }
  const runner = openRunner(harness, sandbox, openUploaded)
  const [first] = levelCases
  const share = isLongRun() && sandbox === 'bwrap' ? levelCases : levelCases.slice(0, 1)

  test('solves a task, and the ledger matches the usage at the provider', async () => {
    const { record, totals, calls, folder } = await runner.run(first, solves)
    expect(record).toMatchObject({ state: 'passed', class: 'verified' })
    expect(totals).toMatchObject({ costSource: 'metered', levelMismatches: 0, helperCalls: 0 })
    expect(totals.refusals).toEqual(probesServer ? { path: expect.any(Number) } : {})
    expect(totals.usage).toEqual(sumUsage(calls))
    expect(totals.calls).toMatchObject({ succeeded: calls.length, failed: 0, cut: 0, open: 0, lost: 0 })
    expect(filesWith(folder, KEY)).toEqual([])
    if (!reportsSteps) return
    const { steps } = JSON.parse(readFileSync(join(folder, 'trajectory-1.json'), 'utf8'))
    expect(JSON.stringify(steps)).toContain('/app/hello.txt')
    expect(JSON.stringify(steps.at(-1))).toContain('It is there.')
  })

  test.each(share)('requests $level from $model in $protocol', async (levelCase) => {
    const { totals, calls } = await runner.run(levelCase, SPEAKS)
    expect(calls.length).toBeGreaterThan(0)
    expect(calls.map(({ protocol }) => protocol)).toEqual(calls.map(() => levelCase.protocol))
    expect(totals).toMatchObject({ levelMismatches: 0, levelAsked: null })
  })

  test.each([
    ['a wrong key stops its comparison', { keys: ['sk-another'] }, { kind: 'stopped', reason: 'credential' }],
    ['an unknown model is an operator error', { models: ['another'] }, { state: 'errored', class: 'operator_error' }],
  ])('%s', async (_name, fault, verdict) => {
    const { record, totals } = await runner.run(first, { ...solves, ...fault })
    expect(decideVerdict(record, totals)).toMatchObject(verdict)
  })

  describe.skipIf(!isLongRun())('in the long run', () => {
    test.each([429, 500])('recovers from %i', async (status) => {
      const faults = [{ status, times: 2, retryAfter: status === 429 ? '1' : undefined }]
      const { record, totals, calls } = await runner.run(first, { ...solves, faults })
      expect(record).toMatchObject({ state: 'passed' })
      expect(calls.filter((call) => call.status === status)).toHaveLength(2)
      expect(totals.usage).toEqual(sumUsage(calls))
    })

    test('stops at its deadline', async () => {
      const { record } = await runner.run(
        first,
        { ...solves, faults: [{ hang: 'before', times: 1000 }] },
        { seconds: 12 },
      )
      expect(record).toMatchObject({ state: 'failed', class: 'agent_timeout', limit: 'seconds' })
    })

    test('stops at its budget', async () => {
      const { record, totals } = await runner.run(first, NEVER_ENDS, { budgetMicros })
      expect(record).toMatchObject({ state: 'failed', limit: null })
      expect(totals.calls.succeeded).toBeGreaterThan(0)
      expect(totals.refusals.budget).toBeGreaterThan(0)
      expect(totals.costMicros).toBeLessThanOrEqual(budgetMicros)
    })

    test('connects to nothing but its model', async () => {
      const toml = { environment: 'network_mode = "allowlist"\nallowed_hosts = ["assay.invalid"]' }
      const { record } = await runner.run(first, solves, { toml })
      expect(record.state).toBe('passed')
      const egress = record.steps[0]?.network.agent.egress
      expect(egress).toMatchObject({ connections: 0, reached: [] })
      expect(egress?.refused.first.map(({ host }) => host).filter((host) => !refusedHosts.includes(host))).toEqual([])
    })
  })
}

type ContractRunOptions = { seconds?: number; budgetMicros?: number; toml?: Parameters<typeof taskToml>[0] }

/** Time limit of cases that are not about it: on a busy machine some programs take a minute to start. */
const SECONDS = 600

function openRunner(harness: Harness, sandbox: SandboxName, openUploaded: InstallOptions['openUploaded']) {
  let models: ScriptedGateway
  let fixture: Awaited<ReturnType<typeof openTrialRunner>>
  let installFailure: Error | undefined
  let count = 0
  const onProgress = () => {}
  const image = imageFor(harness)
  beforeAll(async () => {
    models = await openScriptedGateway()
    fixture = await openTrialRunner(sandbox, { images: image.name === IMAGE ? [] : [image] })
    const folder = await bundlesFolder()
    const signal = AbortSignal.timeout(INSTALL_MS)
    if (!harness.bundle) return
    const installed = install(harness.bundle, { folder, signal, onProgress, openUploaded })
    installFailure = await installed.then(() => undefined, toInstallFailure)
  }, INSTALL_MS * 2)
  // An unreachable registry says nothing about a harness.
  beforeEach(({ skip }) => {
    if (installFailure && !requiredParts().includes('harnesses')) skip(installFailure.message)
  })
  afterAll(async () => {
    await fixture?.[Symbol.asyncDispose]()
    await models?.[Symbol.asyncDispose]()
  }, 60_000)

  const run = async (levelCase: LevelCase, script: ScriptInput, options: ContractRunOptions = {}) => {
    count += 1
    const folder = join(fixture.folder, `out-${count}`)
    const task = writeTask(join(fixture.folder, `task-${count}`), {
      'task.toml': taskToml({ agentSec: options.seconds ?? SECONDS, ...options.toml }, image.name),
      'instruction.md': 'Write the word hello to /app/hello.txt.\n',
    })
    const { place: model, totals } = await models.open(harness, levelCase, script, options.budgetMicros ?? null)
    const bundles = { folder: await bundlesFolder(), openUploaded }
    const record = await fixture.run(task, harness, 'workspace', {
      isProven: true,
      outputFolder: folder,
      model,
      bundles,
    })
    return { record, totals: await totals(), calls: models.provider.calls(), folder }
  }
  return { run }
}

function toInstallFailure(error: unknown): Error {
  if (error instanceof HarnessUnfit) return error
  throw error
}

type ProviderCall = ReturnType<ScriptedGateway['provider']['calls']>[number]

/** Total usage that the provider billed. */
const sumUsage = (calls: ProviderCall[]): Usage =>
  calls.reduce<Usage>((sum, { usage }) => (usage ? addUsage(sum, usage) : sum), NO_USAGE)

const filesWith = (folder: string, text: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => readFileSync(path).includes(text))
