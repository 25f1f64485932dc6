import { execFileSync } from 'node:child_process'
import { mkdirSync, renameSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { newKey } from '../src/workspaces/key.ts'
import { type CommandVariables, launch, scratchFolder, startInProcess } from '../test/support/assay-command.ts'
import { writeTask } from '../test/support/trials/trial-runner.ts'

// docs/cli.md promises build servers a line at least every 10 seconds, and exit codes.

const ID = '0198c0de-0000-7000-8000-000000000000'
const RUN = `batch-${ID}`
const PROMISED_MS = 10_000
const REPO = ['--repo', 'lab/demo']

const folder = scratchFolder()
const task = join(folder.path, 'task')
const data = ['--data', join(folder.path, 'data')]
beforeAll(() => void writeTask(task))
afterAll(folder.remove)

/** A server that leaves requests unanswered until it is released. */
type SilentServer = { port: number; asked: Promise<unknown>; release: () => void }

/** Starts a command, lets the promised time pass while it waits for `server`, and returns its exit code. */
async function waitFor(server: SilentServer, args: string[], env: CommandVariables) {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const running = startInProcess(args, env)
  const isEnded = running.exited.then(() => true)
  expect(await Promise.race([server.asked, isEnded]), running.err()).not.toBe(true)
  const before = running.err()
  vi.advanceTimersByTime(PROMISED_MS)
  const printed = running.err().slice(before.length)
  server.release()
  return { code: await running.exited, printed, err: running.err() }
}

describe('a service that does not answer', () => {
  const problem = { status: 503, code: 'unavailable', title: 'Down', detail: 'Down.', requestId: 'r1' }

  /** Knows the key, and answers nothing else until it is released: then it is down. */
  async function startService(): Promise<SilentServer> {
    const { promise: asked, resolve: onAsked } = Promise.withResolvers<void>()
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    const server = createServer(async (request, response) => {
      if (request.url === '/api/key') {
        response.setHeader('content-type', 'application/json')
        return response.end(JSON.stringify({ org: 'local', permission: 'admin', expiresAt: null }))
      }
      onAsked()
      await released
      response.writeHead(problem.status, { 'content-type': 'application/problem+json' })
      response.end(JSON.stringify(problem))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    return { port: (server.address() as AddressInfo).port, asked, release }
  }

  test.each([
    [['compare', 'assay/quick']],
    [['compare', ...REPO]],
    [['comparisons', 'watch', 'assay/quick', ID]],
    [['comparisons', 'export', 'assay/quick', ID, '--html', '--output', join(folder.path, 'export')]],
    [['benchmarks', 'add', 'assay/quick']],
    [['batches', 'create', '--easy', '1', ...REPO]],
    [['batches', 'import', task, ...REPO]],
    [['batches', 'watch', RUN, ...REPO]],
    [['releases', 'publish', ...REPO]],
    [['trials', 'logs', ID, '--follow']],
  ])('%j prints a line within 10 seconds and ends with 3', async (args) => {
    const server = await startService()
    const env = { ASSAY_URL: `http://127.0.0.1:${server.port}`, ASSAY_KEY: newKey() }
    const { code, printed, err } = await waitFor(server, args, env)
    expect(printed, err).toMatch(/^(assay .*: \d+ s so far|Waiting for the service\.)\n$/)
    expect(code, err).toBe(3)
  })
})

describe('a sandbox engine or a database that does not answer', () => {
  /** Accepts connections and never answers. On release it closes them, and refuses others. */
  async function startSilence(): Promise<SilentServer> {
    const { promise: asked, resolve: onAsked } = Promise.withResolvers<void>()
    const sockets: Socket[] = []
    const server = createTcpServer((socket) => {
      sockets.push(socket)
      socket.on('data', () => onAsked()).on('error', () => {})
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const release = () => {
      server.close()
      for (const socket of sockets) socket.destroy()
    }
    onTestFinished(release)
    return { port: (server.address() as AddressInfo).port, asked, release }
  }

  test.each([
    [['run', task, '--sandbox', 'docker', ...data]],
    [['trial', task, '--sandbox', 'docker', ...data]],
    [['calibrate', task, '--sandbox', 'docker', ...data]],
  ])('%j prints a line within 10 seconds and ends with 3', async (args) => {
    const engine = await startSilence()
    const { code, printed, err } = await waitFor(engine, args, { DOCKER_HOST: `tcp://127.0.0.1:${engine.port}` })
    expect(printed, err).toMatch(/^.* \d+ s so far\n$/)
    expect(code, err).toBe(3)
  })

  test('a backup prints a line within 10 seconds and ends with 3', async () => {
    const database = await startSilence()
    const env = { DATABASE_URL: `postgres://assay@127.0.0.1:${database.port}/assay` }
    const { code, printed, err } = await waitFor(database, ['backup', join(folder.path, 'backup'), ...data], env)
    expect(printed, err).toBe('still running: starting\n')
    expect(code, err).toBe(3)
    expect(err).toContain('The database of DATABASE_URL does not respond')
  })
})

test('a scan prints a line within 10 seconds while git is busy, and ends with 0', async () => {
  const clone = join(folder.path, 'clone')
  const config = join(clone, '.git', 'config')
  mkdirSync(clone)
  execFileSync('git', ['init', '--quiet', clone])
  const ordinary = join(folder.path, 'config')
  renameSync(config, ordinary)
  execFileSync('mkfifo', [config])
  // Opening the pipe waits until git reads it, and git waits until it is closed.
  const opened = open(config, 'w')
  const release = async () => {
    renameSync(ordinary, config)
    await (await opened).close()
  }
  const { code, printed, err } = await waitFor({ port: 0, asked: opened, release }, ['scan', clone, '--no-cache'], {})
  expect(printed, err).toMatch(/^assay scan: \d+ s so far\n$/)
  expect(code, err).toBe(0)
})

test('a run on a dataset prints lines while its registry does not answer', async () => {
  const registry = createServer(() => {})
  await new Promise<void>((resolve) => registry.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void registry.closeAllConnections())
  onTestFinished(() => void registry.close())
  const url = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`
  const running = launch(['run', 'lab/demo', '--data', join(folder.path, 'run')], {
    ASSAY_REGISTRIES: 'harbor',
    ASSAY_HARBOR_URL: url,
  })
  running.ready.catch(() => undefined) // it is no service
  await running.err.shows(/^assay run: \d+ s so far$/m)
  registry.closeAllConnections()
  registry.close()
  expect(await running.exited, running.err.text()).toBe(3)
})
