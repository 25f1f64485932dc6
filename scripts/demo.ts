import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { newKey } from '../src/workspaces/key.ts'
import { ROOT } from './files.ts'

// npm run demo: the main job on the bundled samples. No keys, no network, no Docker.

const BIN = join(ROOT, 'bin/assay')
const DATA = process.env.ASSAY_DATA || '.assay-demo'
const BENCHMARK = 'assay/quick'
const NO_SANDBOX = 3

/** A line that says where the service answers. */
const READY = /^assay ready (\S+)$/

async function main(): Promise<number> {
  if (!isOnPath('bwrap') && !isOnPath('runc')) {
    console.error('Trials need bwrap or runc, and this machine has neither. Run: npm run setup -- --yes bwrap')
    return NO_SANDBOX
  }
  const key = newKey()
  const service = start(['serve', '--data', DATA, '--port', '0'], {
    ASSAY_BOOTSTRAP_KEY: key,
    // Its own system files stand in for base images: nothing has to be downloaded.
    ASSAY_ALLOW_HOST_BASE: '1',
    ASSAY_REGISTRIES: 'samples',
    ASSAY_LOG: 'error',
  })
  const stop = once(() => service.kill('SIGTERM'))
  process.on('SIGINT', stop)
  try {
    return await show(await addressOf(service), key)
  } finally {
    stop()
    await ended(service)
  }
}

async function show(url: string, key: string): Promise<number> {
  const client = { ASSAY_URL: url, ASSAY_KEY: key }
  const added = await ended(start(['benchmarks', 'add', BENCHMARK], client, 'inherit'))
  if (added !== 0) return added
  console.log(`\nThe author's solution and doing nothing, on the tasks of ${BENCHMARK}:\n`)
  const compared = await ended(start(['compare', BENCHMARK, '--sandbox', 'local'], client, 'inherit'))
  console.log(`
Where to look:
  all of it is in ${DATA}; start the service on it: bin/assay serve --data ${DATA}
  a key for it: bin/assay keys recover --data ${DATA}
  then: bin/assay comparisons list ${BENCHMARK}, and the reference at /docs`)
  return compared
}

function start(args: string[], environment: Record<string, string>, stdio: 'inherit' | 'pipe' = 'pipe'): ChildProcess {
  const env = { ...process.env, ...environment }
  return spawn(process.execPath, [BIN, ...args], { cwd: ROOT, env, stdio: ['ignore', stdio, 'inherit'] })
}

async function addressOf(service: ChildProcess): Promise<string> {
  if (!service.stdout) throw new Error('The service was started without its output.')
  for await (const line of createInterface({ input: service.stdout })) {
    const url = READY.exec(line)?.[1]
    if (url) return url
  }
  throw new Error('The service did not start.')
}

const endings = new WeakMap<ChildProcess, Promise<number>>()

function ended(child: ChildProcess): Promise<number> {
  const known = endings.get(child)
  if (known) return known
  const isOver = child.exitCode !== null || child.signalCode !== null
  const ending = isOver
    ? Promise.resolve(child.exitCode ?? 1)
    : new Promise<number>((resolve) => child.once('exit', (code) => resolve(code ?? 1)))
  endings.set(child, ending)
  return ending
}

function once(work: () => void): () => void {
  let isDone = false
  return () => {
    if (!isDone) work()
    isDone = true
  }
}

function isOnPath(program: string): boolean {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

process.exitCode = await main()
