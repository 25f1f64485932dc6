import { expect, test } from 'vitest'
import type { Tool } from '../../samples/provider/conversation.ts'
import { filledLine, namedCall, shellCall } from '../../samples/provider/tools.ts'
import type { Json, JsonObject } from '../../src/harnesses/json.ts'

const LINE = 'printf "%s" \'a b\' > x'

const tool = (name: string, properties: JsonObject, required: string[] = [], kind = 'function'): Tool => ({
  name,
  kind,
  schema: { properties, required },
  namespace: null,
})
const TEXT = { type: 'string' }
const FLAG = { type: 'boolean' }

// What programs offer, as far as it matters here.
test.each<[string, Tool[], string, Json]>([
  [
    'Bash among others',
    [tool('Read', { file_path: TEXT }), tool('Bash', { command: TEXT, timeout: {} })],
    'Bash',
    { command: LINE },
  ],
  [
    'cmd, and not what writes to it',
    [tool('write_stdin', { chars: TEXT }), tool('exec_command', { cmd: TEXT }, ['cmd'])],
    'exec_command',
    { cmd: LINE },
  ],
  [
    'a list of arguments',
    [tool('shell', { command: { type: 'array', items: TEXT } }, ['command'])],
    'shell',
    { command: ['bash', '-lc', LINE] },
  ],
  [
    'a shell that is no function',
    [tool('local_shell', {}, [], 'local_shell')],
    'local_shell',
    { command: ['bash', '-lc', LINE] },
  ],
  [
    'types in capitals',
    [
      tool('read_file', {}),
      tool('run_shell_command', { command: { type: 'STRING' }, is_background: { type: 'BOOLEAN' } }),
    ],
    'run_shell_command',
    { command: LINE },
  ],
  [
    'a flag that must be there',
    [tool('run_shell_command', { command: TEXT, is_background: FLAG }, ['command', 'is_background'])],
    'run_shell_command',
    { command: LINE, is_background: false },
  ],
  [
    'a text that must be there',
    [tool('bash', { command: TEXT, description: TEXT }, ['command', 'description'])],
    'bash',
    { command: LINE, description: 'as the task says' },
  ],
  [
    'a choice and a number that must be there',
    [
      tool('write_bash', { shellId: TEXT }),
      tool('bash', { command: TEXT, mode: { enum: ['sync', 'async'] }, wait: { type: 'number' } }, ['mode', 'wait']),
    ],
    'bash',
    { command: LINE, mode: 'sync', wait: 10_000 },
  ],
  [
    'Shell with a capital',
    [tool('ReadFile', {}), tool('Shell', { command: TEXT }, ['command'])],
    'Shell',
    { command: LINE },
  ],
  [
    'a list of lines',
    [tool('run_commands', { commands: { type: ['array', 'null'] } })],
    'run_commands',
    { commands: [LINE] },
  ],
])('a shell is found: %s', (_, tools, name, input) => {
  const call = shellCall(tools, LINE)
  expect([call?.tool.name, call?.input]).toEqual([name, input])
})

test('a tool that takes code runs the line in it', () => {
  const call = shellCall([tool('wait', {}), tool('exec', {}, [], 'custom')], LINE)
  expect(call?.tool.name).toBe('exec')
  expect(call?.input).toContain(`tools.exec_command({cmd: ${JSON.stringify(LINE)}})`)
})

test('without a shell there is no call', () => {
  expect(shellCall([tool('BashOutput', { id: TEXT }), tool('Read', {})], LINE)).toBeNull()
})

test('finds another tool by the end of its name, also among deferred tools', () => {
  const tool = (name: string, kind = 'function'): Tool => ({ name, kind, schema: {}, namespace: null })
  const [word, search] = [tool('mcp__words__secret_word'), tool('tool_search', 'tool_search')]
  expect(namedCall([tool('bash'), word], 'secret_word', { a: 1 })).toEqual({ tool: word, input: { a: 1 } })
  expect(namedCall([search], 'secret_word', {})).toMatchObject({ tool: search, input: { query: 'secret word' } })
  expect(namedCall([tool('bash')], 'secret_word', {})).toBeNull()
})

test('removes shell metacharacters from a tool result that enters a command', () => {
  expect(filledLine("echo '{result}'", "a-b.c 1'; rm -rf /")).toBe("echo 'a-b.c 1 rm -rf '")
})
