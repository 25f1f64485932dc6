import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { access, mkdir, rename, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'

const VERSION = '5.2.5'
const INSTALL_TIMEOUT_MS = 10 * 60_000
const run = promisify(execFile)

const { ASSAY_TEST_CACHE, XDG_CACHE_HOME, ASSAY_REQUIRE = '' } = process.env
const cache = ASSAY_TEST_CACHE ?? join(XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'assay-test')
const home = join(cache, `moto-${VERSION}`)
const pythonIn = (folder: string) => join(folder, 'bin', 'python')

/** Serialises requests: moto fails when two requests write the same key at once, which S3 allows. */
const SERVER = `
import threading
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

app, lock = DomainDispatcherApplication(create_backend_app), threading.Lock()

def one_at_a_time(environ, start_response):
    with lock:
        return app(environ, start_response)

run_simple('127.0.0.1', 0, one_at_a_time, threaded=True, request_handler=MotoRequestHandler)
`

/** Installs moto's S3 server outside the repository on first use (about a minute, 320 MB). */
export async function motoAvailable(): Promise<{ available: true } | { available: false; reason: string }> {
  try {
    if (!(await exists(pythonIn(home)))) await install()
    return { available: true }
  } catch (error) {
    const reason = `moto ${VERSION} is not installed and could not be: ${reasonOf(error)}`
    if (ASSAY_REQUIRE.split(',').includes('s3')) throw new Error(`ASSAY_REQUIRE names s3, but ${reason}`)
    return { available: false, reason }
  }
}

/** Starts an empty S3 server on a free port. It accepts any keys. */
export async function startMoto(): Promise<AsyncDisposable & { url: string }> {
  const server = spawn(pythonIn(home), ['-c', SERVER], { stdio: ['ignore', 'ignore', 'pipe'] })
  const url = await announcedUrl(server)
  return {
    url,
    async [Symbol.asyncDispose]() {
      if (server.exitCode !== null || server.signalCode !== null) return
      server.kill('SIGKILL')
      await once(server, 'exit')
    },
  }
}

/** Installs into a temporary folder and moves it when complete, so that interrupted or parallel runs leave nothing partial. */
async function install(): Promise<void> {
  const building = `${home}.${randomUUID()}`
  try {
    await mkdir(cache, { recursive: true })
    await run('python3', ['-m', 'venv', building], { timeout: INSTALL_TIMEOUT_MS })
    const pip = ['-m', 'pip', 'install', '--quiet', '--only-binary', ':all:', `moto[server]==${VERSION}`]
    await run(pythonIn(building), pip, { timeout: INSTALL_TIMEOUT_MS })
    await rename(building, home).catch(async (error: unknown) => {
      if (!(await exists(pythonIn(home)))) throw error // otherwise a parallel run has installed it
    })
  } finally {
    await rm(building, { recursive: true, force: true })
  }
}

/** Reads the address from standard error, because the server chooses its port. */
async function announcedUrl(server: ChildProcess): Promise<string> {
  if (!server.stderr) throw new Error('moto was started without standard error.')
  const said: string[] = []
  for await (const line of createInterface({ input: server.stderr })) {
    const url = /Running on (http:\/\/127\.0\.0\.1:\d+)/.exec(line)?.[1]
    if (url) {
      server.stderr.resume() // so that a full pipe never blocks it
      return url
    }
    said.push(line)
  }
  throw new Error(`moto ended before it was ready: ${said.join(' ')}`)
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code, stdout = '', stderr = '' } = error as Error & { code?: unknown; stdout?: string; stderr?: string }
  if (code === 'ENOENT') return 'there is no python3'
  if (`${stdout}${stderr}`.includes('ensurepip')) {
    return 'python3 -m venv needs ensurepip (on Debian and Ubuntu: apt install python3-venv)'
  }
  return (stderr || error.message).trim().split('\n').at(-1) ?? 'unknown'
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )
