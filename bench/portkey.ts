import { execFile, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'

/** Another gateway for comparison. It is not a dependency of this project. */
export const PORTKEY = '@portkey-ai/gateway@1.15.2'

export type Portkey = AsyncDisposable & { url: string; pid: number; headers: Record<string, string> }

/** In later versions every stream fails before it starts. */
const WORKING = { '@hono/node-server': '1.14.1' }

const run = promisify(execFile)
const INSTALL_MS = 180_000
const START_MS = 60_000

/** Installs Portkey temporarily. Returns a sentence if that is impossible. */
export async function startPortkey(upstream: string): Promise<Portkey | string> {
  await using undo = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'assay-bench-portkey-'))
  undo.defer(() => rm(folder, { recursive: true, force: true }))
  await writeFile(join(folder, 'package.json'), JSON.stringify({ private: true, overrides: WORKING }))
  const words = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--no-save', PORTKEY]
  try {
    await run('npm', words, { cwd: folder, timeout: INSTALL_MS })
  } catch (error) {
    return `it could not be installed (${error instanceof Error ? error.message.split('\n')[0] : error})`
  }

  const port = await freePort()
  const program = join(folder, 'node_modules', '@portkey-ai', 'gateway', 'build', 'start-server.js')
  const env = { ...process.env, NODE_ENV: 'production' }
  const child = spawn(process.execPath, [program, '--headless', `--port=${port}`], { env, stdio: 'ignore' })
  const exited = new Promise((resolve) => child.once('exit', resolve))
  undo.defer(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const url = `http://127.0.0.1:${port}`
  if (!(await answers(url))) return 'it did not start'
  const running = undo.move()
  return {
    url,
    pid: child.pid ?? 0,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
    headers: { 'x-portkey-provider': 'anthropic', 'x-portkey-custom-host': `${upstream}/v1` },
  }
}

async function answers(url: string): Promise<boolean> {
  for (const started = performance.now(); performance.now() - started < START_MS; await wait(100)) {
    const answered = await fetch(url).then(
      () => true,
      () => false,
    )
    if (answered) return true
  }
  return false
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (address === null || typeof address === 'string') throw new Error('There is no free port.')
  return address.port
}
