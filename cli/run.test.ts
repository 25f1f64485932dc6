import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { parse } from 'yaml'
import { startProvider } from '../samples/provider/provider.ts'
import { ProviderScript } from '../samples/provider/script.ts'
import { newKey } from '../src/workspaces/key.ts'
import { assay, hasTerminal, launch, localServer, onTerminal, scratchFolder } from '../test/support/assay-command.ts'
import { baseRootfs } from '../test/support/base-image.ts'
import { startService } from '../test/support/service.ts'
import { writeTask } from '../test/support/trials/trial-runner.ts'

vi.setConfig({ testTimeout: 240_000 })

const folder = scratchFolder()
const data = join(folder.path, 'data')
const tasks = join(folder.path, 'tasks')
const task = join(tasks, 'hello')

beforeAll(async () => {
  writeTask(task)
  writeTask(join(tasks, 'other'))
  const image = ['--name', 'debian:bookworm-slim', '--data', data]
  const imported = await assay(['images', 'import', await baseRootfs(), ...image])
  expect(imported.code, imported.err).toBe(0)
}, 600_000)
afterAll(folder.remove)

const run = (target: string, ...args: string[]) => assay(['run', target, '--data', data, ...args])

type Reply = (response: ServerResponse, call: number) => void

const event = (json: object): string => `data: ${JSON.stringify(json)}\n\n`
const delta = (part: object, finish: string | null = null) => ({
  model: 'm',
  choices: [{ index: 0, delta: part, finish_reason: finish }],
})
const usage = { choices: [], usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 } }
const shell = { index: 0, id: 'a', function: { name: 'shell', arguments: '{"command":"echo hello > hello.txt"}' } }

/** Solves the task with its first answer and is done with the second. Both are streamed. */
const solve: Reply = (response, call) => {
  const [part, finish] = call === 1 ? [{ tool_calls: [shell] }, 'tool_calls'] : [{ content: 'Done.' }, 'stop']
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.end(`${[delta(part), delta({}, finish), usage].map(event).join('')}data: [DONE]\n\n`)
}

async function startModel(reply: Reply) {
  const requests: { body: Record<string, unknown>; key: string | undefined }[] = []
  const server = await localServer(async (request: IncomingMessage, response) => {
    requests.push({ body: JSON.parse(await text(request)), key: request.headers.authorization })
    reply(response, requests.length)
  })
  return { ...server, baseUrl: `${server.url}/v1`, requests, [Symbol.asyncDispose]: server[Symbol.asyncDispose] }
}

test('one command runs a task with a model server of this machine', async () => {
  await using model = await startModel(solve)
  const ran = await run(task, '--model', 'm', '--base-url', model.baseUrl, '--fail-under', '100')
  expect(ran.code, ran.err).toBe(0)
  expect(ran.err).toMatch(/^1 trial of mini with m$/m)
  expect(ran.out).toMatch(/^hello +1 +passed +\$0\.0000 /m)
  expect(ran.out).toMatch(/^1 of 1 passed \(100\.0 %\)\. Cost: \$0\.0000\.$/m)
  expect(model.requests).toHaveLength(2)
  expect(model.requests[0]).toMatchObject({ body: { model: 'm', stream: true }, key: 'Bearer none' })
})

test('a custom model of the data folder works in a trial without a service', async () => {
  await using model = await startModel(solve)
  const key = newKey()
  const service = await startService('serve', ['--data', data, '--port', '0'], { ASSAY_BOOTSTRAP_KEY: key })
  try {
    const env = { ASSAY_URL: service.url, ASSAY_KEY: key, FAKE_KEY: 'fake-key-1' }
    const flags = ['--base-url', model.baseUrl, '--key-env', 'FAKE_KEY']
    const added = await assay(['models', 'add', 'custom/fake', ...flags], { env })
    expect(added.code, added.err).toBe(0)
  } finally {
    await service.kill('SIGTERM')
  }
  const flags = ['--harness', 'mini', '--model', 'custom/fake', '--verify-mode', 'workspace', '--expect', 'pass']
  const ran = await assay(['trial', task, '--data', data, ...flags])
  expect(ran.code, ran.err).toBe(0)
  expect(ran.out).toMatch(/^tokens +200 in, 0 cached, 20 out/m)
  expect(model.requests[0]).toMatchObject({ body: { model: 'fake' }, key: 'Bearer fake-key-1' })
})

describe('a run without a result exits with 3 and says why', () => {
  const CONTEXT = 'request (2257 tokens) exceeds the available context size (1024 tokens), try increasing it'
  const refuse =
    (status: number, message: string): Reply =>
    (response) =>
      response
        .writeHead(status, { 'content-type': 'application/json' })
        .end(JSON.stringify({ error: { code: status, message } }))

  test('a server that is not running', async () => {
    const ran = await run(task, '--model', 'm', '--base-url', 'http://127.0.0.1:9/v1')
    expect(ran.code, ran.err).toBe(3)
    expect(ran.out).toContain('The provider could not be reached')
    expect(ran.out).toContain('the connection was refused (ECONNREFUSED)')
  })

  test('a wrong key', async () => {
    await using model = await startModel(refuse(401, 'Invalid API Key'))
    const ran = await run(task, '--model', 'm', '--base-url', model.baseUrl)
    expect(ran.code, ran.err).toBe(3)
    expect(ran.out).toContain('The provider rejected the key (401): "Invalid API Key".')
  })

  test('a context that is too short counts against the setting, with both sizes', async () => {
    await using model = await startModel(refuse(400, CONTEXT))
    const ran = await run(task, '--model', 'm', '--base-url', model.baseUrl)
    expect(ran.code, ran.err).toBe(0)
    expect(ran.out).toContain("A request of 2257 tokens exceeds the model's context of 1024 tokens")
    expect(ran.out).toContain('0 of 1 passed')
  })
})

test('the approved tasks of a clone are run', async () => {
  const clone = join(folder.path, 'clone')
  execFileSync('git', ['init', '--quiet', clone])
  execFileSync('git', ['-C', clone, 'remote', 'add', 'origin', 'https://git.example.org/lab/demo.git'])
  const unknown = await run(clone)
  expect(unknown).toMatchObject({ code: 2, err: expect.stringContaining('assay repos connect lab/demo') })

  const key = newKey()
  const service = await startService('serve', ['--data', data, '--port', '0'], { ASSAY_BOOTSTRAP_KEY: key })
  const command = async (...args: string[]) => {
    const done = await assay(args, { env: { ASSAY_URL: service.url, ASSAY_KEY: key } })
    expect(done.code, `${args[1]}: ${done.err}`).toBe(0)
    return done
  }
  const repo = ['--repo', 'lab/demo']
  await command('repos', 'connect', 'lab/demo', '--git', 'https://git.example.org/lab/demo.git')
  const runId = (await command('batches', 'import', 'samples/tasks/greet-in-bash', ...repo)).out.trim()
  await command('batches', 'watch', runId, ...repo)
  await command('batches', 'approve', runId, 'greet-in-bash', ...repo)
  await service.kill('SIGTERM')

  const script = ProviderScript.parse(JSON.parse(readFileSync('samples/provider/quick.json', 'utf8')))
  await using provider = await startProvider(script)
  const ran = await run(clone, '--model', 'm', '--base-url', `${provider.url}/v1`, '--fail-under', '100')
  expect(ran.code, ran.err).toBe(0)
  expect(ran.out).toMatch(/\|mini\|none +1\/1 +100\.0 %/)
  expect(provider.calls().length).toBeGreaterThan(0)
})

describe('a dataset', () => {
  test('says why trials failed', async () => {
    await using model = await startModel((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(`${[delta({ content: 'No.' }), delta({}, 'stop'), usage].map(event).join('')}data: [DONE]\n\n`)
    })
    const ran = await run('assay/quick', '--task', 'greet-*', '--model', 'm', '--base-url', model.baseUrl)
    expect(ran.code, ran.err).toBe(0)
    expect(ran.err).toContain(`Starting a service on ${data}.`)
    expect(ran.err).toContain('1 trial failed:\n  1 × The tests of the task gave the reward 0.')
  })

  test('Ctrl-C cancels the comparison and exits with 130', async () => {
    const { promise: asked, resolve: onAsked } = Promise.withResolvers<void>()
    await using model = await startModel(() => onAsked())
    const flags = ['--data', data, '--task', 'greet-*', '--model', 'silent', '--base-url', model.baseUrl]
    const running = launch(['run', 'assay/quick', ...flags])
    running.ready.catch(() => undefined) // it is no service
    await Promise.race([asked, running.exited])
    running.child.kill('SIGINT')
    expect(await running.exited, running.err.text()).toBe(130)
    expect(running.err.text()).toContain('Canceled. Trials that had ended keep their results.')
  })
})

test.runIf(hasTerminal)(
  'shows the expected cost of a model with a price, and starts nothing unless confirmed',
  async () => {
    const flags = ['--model', 'anthropic/claude-sonnet-5', '--budget', '2']
    let isAnswered = false
    const env = { ANTHROPIC_API_KEY: 'sk-ant-0123456789abcdef' }
    const ran = await onTerminal(['run', tasks, '--data', data, ...flags], env, (shown) => {
      if (isAnswered || !shown.includes('Start these trials?')) return undefined
      isAnswered = true
      return 'n'
    })
    expect(ran.code).toBe(130)
    expect(ran.out).toMatch(/2 trials \(2 tasks × 1 setting × 1 attempt\)/)
    expect(ran.out).toMatch(/Expected cost: \$\d+\.\d\d .*at most \$4\.00/)
    expect(ran.out).toContain('Nothing was started.')
    expect(ran.out).not.toContain('2 trials of mini')
  },
)

test('folders of tasks are filtered by name and number', async () => {
  const all = await run(tasks, '--task', 'o*', '--json')
  expect(all.code, all.err).toBe(0)
  expect(JSON.parse(all.out)).toMatchObject({ passed: 1, scored: 1, accuracy: 100, trials: [{ name: 'other' }] })
})

describe('a run file', () => {
  const file = join(folder.path, 'assay.yaml')
  const writeFile = (text: string): void => writeFileSync(file, text)

  test('holds the target and every option, and options win', async () => {
    writeFile(`target: ${tasks}\ntask: [o*]\nattempts: 2\ntimeout-multiplier: 1.5\nfail-under: 100\n`)
    const ran = await assay(['run', '-f', file, '--data', data, '--attempts', '1', '--json'])
    expect(ran.code, ran.err).toBe(0)
    const { trials } = JSON.parse(ran.out)
    expect(trials).toMatchObject([{ name: 'other', attempt: 1, timeoutMultiplier: 1.5 }])
  })

  test('is printed with everything that is resolved, and can be used again', async () => {
    const flags = ['--model', 'm', '--base-url', 'http://127.0.0.1:9/v1', '--limit', '3', '--env', 'A=b', '--yes']
    const printed = await run(tasks, ...flags, '--print-config')
    expect(printed.code, printed.err).toBe(0)
    expect(parse(printed.out)).toEqual({
      target: tasks,
      model: 'm',
      harness: 'mini',
      'base-url': 'http://127.0.0.1:9/v1',
      attempts: '1',
      limit: '3',
      sandbox: 'auto',
      env: ['A=b'],
      yes: true,
      data,
    })
    writeFile(printed.out)
    expect((await assay(['run', '-f', file, '--print-config'])).out).toBe(printed.out)
  })

  test.each([
    ['modle: m\n', 'unknown key modle. Did you mean model?'],
    ['verbose: 3\n', 'verbose must be true or false.'],
    ['model: [a]\n', 'model must be a text or a number.'],
    ['- a\n', 'must contain keys and values'],
    ['a: [\n', 'is not valid YAML'],
    ['model: m\n', 'Name a target'],
  ])('%j is wrong use', async (text, sentence) => {
    writeFile(text)
    const ran = await assay(['run', '-f', file])
    expect(ran).toMatchObject({ code: 2, out: '' })
    expect(ran.err).toContain(sentence)
  })
})

test.each([
  [['./nowhere'], /neither a folder nor the name of a dataset/],
  [[tasks, '--task', 'zz*'], /No task matches zz\*\. There are: hello, other\./],
  [[tasks, '--limit', '0'], /--limit must be a whole number from 1 up/],
  [[tasks, '--model', 'm', '--base-url', 'nowhere'], /--base-url must be an http or https URL/],
  [[tasks, '--model', 'm', '--key-env', 'K'], /can only be used with --base-url/],
  [[tasks, '--timeout-multiplier', '0'], /--timeout-multiplier must be a number from 0\.1 to 100/],
  [[tasks, '-f', 'nowhere.yaml'], /Cannot read the run file nowhere\.yaml: it does not exist/],
  [[folder.path], /contains no task .* and is not a git clone/],
])('%j is wrong use', async ([target = '', ...args], sentence) => {
  const ran = await run(target, ...args)
  expect(ran).toMatchObject({ code: 2, out: '' })
  expect(ran.err).toMatch(sentence)
})
