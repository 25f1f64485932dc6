import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Provider, startProvider } from '../../samples/provider/provider.ts'
import { openGatewayFixture as openGateway, TERMS } from '../../test/support/gateway/gateway.ts'
import { inSandboxes } from '../../test/support/trials/in-sandboxes.ts'
import { taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { complete, openModel } from '../gateway/client/open-model.ts'
import { readGrant } from '../gateway/grants.ts'
import { buildCustomHarness } from '../harnesses/custom-harness.ts'
import { mini } from '../harnesses/mini.ts'
import type { ModelAccess } from '../harnesses/model-access.ts'
import type { TrialModel } from './trial-request.ts'

let provider: Provider
beforeAll(async () => {
  provider = await startProvider()
})
afterAll(async () => provider[Symbol.asyncDispose]())

const CANARY = 't-canary-0123456789'

const place = (): TrialModel => {
  const access: ModelAccess = {
    ...{ model: 'large-1', provider: 'acme', protocols: ['openai-chat'], contextTokens: 100_000, outputTokens: 50_000 },
    ...{ protocol: 'openai-chat', level: 'high', wireLevel: { effort: 'high' }, baseUrl: provider.url, token: CANARY },
  }
  return {
    access,
    port: { port: 31_281, onConnection: (socket) => socket.destroy() },
    ask: (asking) => complete(access, asking),
  }
}

/** One micro-dollar per token. */
const PRICES = { input: 1, output: 1, cacheRead: 1, cacheWrite5m: 1 }

const says = (...turns: { say?: string; run?: string }[]) => provider.setScript({ tasks: [{ match: 'hello', turns }] })

inSandboxes(({ runner, isFull }) => {
  const task = (name: string, files: Record<string, string> = {}) => writeTask(join(runner.folder, name), files)
  const run = (folder: string, mode: 'workspace' | 'shared-live' = 'workspace') =>
    runner.run(folder, mini, mode, { model: place() })

  test('mini solves a task; its log and its trajectory are stored', async () => {
    says({ say: 'I write it.', run: 'pwd; echo hello > hello.txt' }, { run: 'cat hello.txt; exit 3' }, { say: 'Done.' })
    const record = await run(task('solved'))
    expect(record).toMatchObject({ state: 'passed', class: 'verified', reward: 1, harness: 'mini' })
    expect(runner.output('agent-1.log')).toContain('"text":"/app\\n\\n[exit code 0]"')
    expect(runner.output('agent-1.log')).toContain('"text":"hello\\n\\n[exit code 3]"')
    const trajectory = JSON.parse(runner.output('trajectory-1.json'))
    expect(trajectory).toMatchObject({ agent: { name: 'mini', model_name: 'large-1' }, steps: { length: 4 } })
    expect(readdirSync(runner.folder).filter((name) => name.startsWith('line'))).toEqual([])
  })

  if (!isFull) return

  test('the sandbox contains no access to the model', async () => {
    says(
      { run: `env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; ls -a / /assay; echo hello > hello.txt` },
      {},
    )
    expect(await run(task('bare'))).toMatchObject({ state: 'passed' })
    const log = runner.output('agent-1.log')
    expect(log).toContain('exit code')
    for (const word of [CANARY, provider.url, 'large-1']) expect(log).not.toContain(word)
  })

  test('files persist between commands, shells do not, and background processes continue', async () => {
    says(
      { run: 'cd /tmp; X=1; (sleep 1; echo hello > /app/hello.txt) > /dev/null 2>&1 &' },
      { run: 'echo "$PWD$X"; until [ -e hello.txt ]; do sleep 0.1; done' },
      {},
    )
    expect(await run(task('background'))).toMatchObject({ state: 'passed' })
    expect(runner.output('agent-1.log')).toContain('"text":"/app\\n\\n[exit code 0]"')
  })

  test('a conversation works in mode shared-live', async () => {
    says({ run: 'echo hello > hello.txt' }, {})
    expect(await run(task('alive'), 'shared-live')).toMatchObject({ state: 'passed', verifyMode: 'shared-live' })
  })

  const withFault = (fault: Parameters<Provider['addFault']>[0]): TrialModel => {
    const model = place()
    let asked = 0
    const ask: TrialModel['ask'] = (asking) => {
      if (++asked === 2) provider.addFault(fault)
      return complete(model.access, asking)
    }
    return { ...model, ask }
  }

  test.each([
    ['in the shell', { run: 'echo hello > hello.txt; sleep 60' }],
    ['in its model', { run: 'echo hello > hello.txt' }],
  ])('a harness that runs out of time %s is stopped, and its work is verified', async (where, turn) => {
    says(turn, {})
    const model = where === 'in its model' ? withFault({ hang: 'before' }) : place()
    const folder = task(`late ${where}`, { 'task.toml': taskToml({ agentSec: 3 }) })
    const record = await runner.run(folder, mini, 'workspace', { model })
    expect(record).toMatchObject({ state: 'passed', class: 'agent_timeout', limit: 'seconds' })
  })

  test('a model that stops answering ends the agent, and its work is verified', async () => {
    says({ run: 'echo hello > hello.txt' }, {})
    const model = withFault({ status: 402, message: 'nothing left to spend' })
    const record = await runner.run(task('spent'), mini, 'workspace', { model })
    expect(record).toMatchObject({ state: 'passed', class: 'agent_exit' })
    expect(runner.output('agent-1.log')).toContain('nothing left to spend')
  })

  test('every call through the gateway is metered at its level, and the budget ends the agent', async () => {
    const resolveUpstream = () => ({ url: provider.url, trust: 'operator' as const })
    await using gateway = await openGateway(() => {}, { tools: { resolveUpstream } })
    provider.forget()
    says({ run: 'echo hello > hello.txt' }, { run: 'cat hello.txt' }, { say: 'Done.' })
    // The provider thinks for 1,024 tokens, which a model must be able to produce to be believed.
    const terms = { ...TERMS, prices: PRICES, outputTokens: 2_000 }
    const tried = async (name: string, budgetMicros: number | null) => {
      const { token, tunnelSecret, id } = await gateway.sandbox({ budgetMicros, terms })
      await using model = openModel({ ...place().access, token }, { url: gateway.gateway.url, tunnelSecret })
      const record = await runner.run(task(name), mini, 'workspace', { model: { ...place(), ask: model.ask } })
      return { record, totals: await readGrant(gateway.ledger, id) }
    }

    const { record, totals } = await tried('metered', null)
    expect(record).toMatchObject({ state: 'passed', class: 'verified' })
    const booked = provider.calls().map(({ usage }) => (usage?.input ?? 0) + (usage?.output ?? 0))
    expect(totals).toMatchObject({ calls: { succeeded: 3 }, costSource: 'metered', levelMismatches: 0 })
    expect(totals.usage.input + totals.usage.output).toBe(booked.reduce((sum, each) => sum + each, 0))

    provider.forget()
    const short = await tried('short', (totals.costMicros ?? 0) / 2 + terms.outputTokens)
    expect(short.record).toMatchObject({ class: 'agent_exit' })
    expect(runner.output('agent-1.log')).toContain('The model answered 402')
    expect(provider.calls().length).toBeLessThan(3)
  })

  test('an agent that uses up the memory is ended with its sandbox', async () => {
    says({ run: 'echo hello > hello.txt; head -c 400m /dev/zero | tail' }, { run: 'true' }, {})
    const folder = task('hungry', { 'task.toml': taskToml({ environment: 'memory_mb = 64' }) })
    const record = await run(folder)
    expect(record.state).toBe('passed')
    expect(existsSync(join(runner.folder, 'agent-1.log'))).toBe(true)
  })

  test('binary output, even a flood of it, does no harm', async () => {
    says({ run: 'head -c 3m /dev/urandom; echo hello > hello.txt' }, {})
    expect(await run(task('flood'))).toMatchObject({ state: 'passed' })
    expect(runner.output('agent-1.log').length).toBeLessThan(300_000)
  })

  test('a custom harness runs in the image, with its files, variables and instruction', async () => {
    const script =
      'grep -q hello "$1" && [ "$(cat)" = "$(cat "$1")" ] && . "$HOME/.house/rc" && echo "$WORD" > hello.txt'
    const house = buildCustomHarness({
      ...{ id: 'custom/house', name: 'House', version: '1', protocols: ['openai-chat'], levels: { high: 'hello' } },
      command: ['sh', '-c', script, 'house', '{instructionFile}'],
      env: { KEY: '{token}' },
      files: [{ path: '.house/rc', text: '[ "$KEY" = {token} ] && WORD={level}\n' }],
    })
    const record = await runner.run(task('described'), house, 'workspace', { model: place() })
    expect(record).toMatchObject({ state: 'passed', class: 'verified' })
  })
})
