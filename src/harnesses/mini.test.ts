import { expect, test } from 'vitest'
import type { TaskStep } from '../harbor/task.ts'
import { type Ask, type Asking, ModelSilent, type Reply, type ToolCall } from './conversation.ts'
import type { Kit } from './harness.ts'
import { HarnessUnfit } from './harness-unfit.ts'
import type { JsonObject } from './json.ts'
import { mini } from './mini.ts'
import type { ModelAccess } from './model-access.ts'
import { trajectoryOf } from './trajectory.ts'

const reply = (over: Partial<Reply> = {}): Reply => ({
  ...{ text: '', thought: '', calls: [], said: 'opaque', stop: 'done' },
  ...over,
})
const shell = (given: JsonObject, over: Partial<ToolCall> = {}): Reply =>
  reply({ calls: [{ id: 'c-1', name: 'shell', arguments: given, ...over }], stop: 'tools' })

type Ran = { code: number; lines: JsonObject[]; ran: string[]; heard: Asking['messages'][] }

/** A model that says these in turn, and a shell that answers so. */
async function run(replies: (Reply | Error)[], answer = { output: 'out', code: 0 as number | null }): Promise<Ran> {
  const lines: JsonObject[] = []
  const ran: string[] = []
  const heard: Asking['messages'][] = []
  const ask: Ask = async ({ messages }) => {
    heard.push([...messages])
    const next = replies[Math.min(heard.length, replies.length) - 1] ?? reply()
    if (next instanceof Error) throw next
    return next
  }
  const exec = async (line: string) => {
    ran.push(line)
    return answer
  }
  const signal = new AbortController().signal
  const code = await mini.converse?.({ instruction: 'Do it.', ask, exec, tell: (line) => lines.push(line), signal })
  return { code: code ?? -1, lines, ran, heard }
}

const lastResult = ({ heard }: Ran): string => {
  const last = heard.at(-1)?.at(-1)
  return last?.role === 'results' ? (last.results[0]?.text ?? '') : ''
}

test('it runs what the model asks for, tells it what came of it, and ends when the model does', async () => {
  const ran = await run([shell({ command: 'ls' }), reply({ text: 'Done.' })], { output: 'a\nb\n', code: 3 })
  expect(ran).toMatchObject({ code: 0, ran: ['ls'] })
  expect(ran.heard.at(-1)).toEqual([
    { role: 'user', text: 'Do it.' },
    { role: 'model', said: 'opaque' },
    { role: 'results', results: [{ id: 'c-1', name: 'shell', text: 'a\nb\n\n[exit code 3]' }] },
  ])
})

test.each([
  [shell({ command: 'ls' }, { name: 'eval' }), 'no tool of this name'],
  [shell({}), 'nothing to run'],
  [shell({ command: ['ls'] }), 'nothing to run'],
  [shell({ command: ' \n' }), 'nothing to run'],
  [shell({ command: 'a\0b' }), 'zero byte'],
  [shell({ command: 'x'.repeat(100_001) }), 'too long'],
])('what makes no sense is not run, and the model is told so', async (asked, hint) => {
  const ran = await run([asked, reply()])
  expect(ran.ran).toEqual([])
  expect(lastResult(ran)).toContain(hint)
  expect(ran.code).toBe(0)
})

test('long output is cut in its middle, and stays well-formed', async () => {
  const output = `first${'\u{1F600}'.repeat(20_001)}last`
  const text = lastResult(await run([shell({ command: 'yes' }), reply()], { output, code: 0 }))
  expect(text.length).toBeLessThan(17_000)
  expect(text).toMatch(/^first.*\[… \d+ characters are left out …\].*last\n\[exit code 0\]$/su)
  expect(text.isWellFormed()).toBe(true)
})

test('a line that was given up is said to be', async () => {
  const text = lastResult(await run([shell({ command: 'sleep 9999' }), reply()], { output: '', code: null }))
  expect(text).toContain('given up')
})

test('an answer that was cut off goes on', async () => {
  const ran = await run([reply({ stop: 'length' }), reply()])
  expect(ran.heard).toHaveLength(2)
  expect(ran.heard.at(-1)?.at(-1)).toMatchObject({ role: 'user' })
})

test('a model that never ends is ended', async () => {
  const ran = await run([shell({ command: 'true' })])
  expect(ran.code).toBe(1)
  expect(ran.heard).toHaveLength(200)
  expect(ran.lines.at(-1)).toEqual({ type: 'end', error: 'It was not done after 200 turns.' })
})

test.each([402, 500, null])('without a reply (%s) it ends, and says why', async (status) => {
  const ran = await run([shell({ command: 'true' }), new ModelSilent(status, 'nothing left')])
  expect(ran).toMatchObject({ code: 1, ran: ['true'] })
  expect(ran.lines.at(-1)).toEqual({ type: 'end', error: 'nothing left' })
})

test('what broke on our side is no end of the agent', async () => {
  await expect(run([new TypeError('a bug')])).rejects.toThrow('a bug')
})

test('nothing of the model is in what it runs in the sandbox; without a model, or with servers of tools, it is unfit', () => {
  const step = { instruction: 'Do it.' } as TaskStep
  const kit: Kit = { solutionEnv: [], mcpServers: [], skillsDir: null }
  const access = { model: 'm-1', token: 't-1' } as ModelAccess
  expect(mini.plan(step, kit, access)).toEqual({ command: ['true'], env: [], folders: [], input: '' })
  expect(() => mini.plan(step, kit)).toThrow(HarnessUnfit)
  const server = { name: 's', transport: 'stdio' as const, command: 'x', args: [] }
  expect(() => mini.plan(step, { ...kit, mcpServers: [server] }, access)).toThrow(HarnessUnfit)
})

test('its log becomes a trajectory', async () => {
  const { lines } = await run([
    { ...shell({ command: 'ls' }), text: 'I look.', thought: 'Hm.' },
    reply({ text: 'Done.' }),
  ])
  const output = lines.map((line) => `${JSON.stringify(line)}\n`).join('')
  expect(trajectoryOf(mini, { instruction: 'Do it.', output, model: 'm-1' })?.steps).toMatchObject([
    { source: 'user', message: 'Do it.' },
    {
      ...{ source: 'agent', message: 'I look.', reasoning_content: 'Hm.' },
      tool_calls: [{ function_name: 'shell', arguments: { command: 'ls' } }],
      observation: { results: [{ content: 'out\n[exit code 0]' }] },
    },
    { source: 'agent', message: 'Done.' },
  ])
})
