import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { accessSync, constants, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { startProvider } from '../samples/provider/provider.ts'
import { newKey } from '../src/workspaces/key.ts'
import { ROOT } from './files.ts'

// npm run demo: compares settings on the bundled samples, without API keys, network or Docker.

const BIN = join(ROOT, 'bin/assay')
const DATA = process.env.ASSAY_DATA || '.assay-demo'
const BENCHMARK = 'assay/quick'
const NO_SANDBOX = 3

/** A scripted mock model. The gateway calls it like a real one. */
const MODEL = 'custom/scripted'
const SCRIPT = join(ROOT, 'samples/provider/quick.json')
/** Covers one or two trials. The comparison pauses before it spends more. */
const SMALL_BUDGET = '0.01'
const BUDGET = '5'

/** The line of output that names the address of the service. */
const READY = /^assay ready (\S+)$/

async function main(): Promise<number> {
  if (!isOnPath('bwrap') && !isOnPath('runc')) {
    console.error('Trials need bwrap or runc, but neither is installed. Run: npm run setup -- --yes bwrap')
    return NO_SANDBOX
  }
  const key = newKey()
  await using provider = await startProvider(JSON.parse(readFileSync(SCRIPT, 'utf8')))
  const service = start(['serve', '--data', DATA, '--port', '0'], {
    ASSAY_BOOTSTRAP_KEY: key,
    // Only the operator may configure an address of this machine; a workspace may not.
    ASSAY_GATEWAY_UPSTREAM_CUSTOM_SCRIPTED: `${provider.url}/v1`,
    // Uses the machine's own system files as the base image, so that nothing has to be downloaded.
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
  console.log(`\nThe reference solution and a no-op on the tasks of ${BENCHMARK}:\n`)
  const compared = await ended(start(['compare', BENCHMARK, '--sandbox', 'local'], client, 'inherit'))
  if (compared !== 0) return compared
  const asked = await showModel(client)
  console.log(`
Next steps:
  The results are in ${DATA}. Start the service with them: bin/assay serve --data ${DATA}
  Create a key: bin/assay keys recover --data ${DATA}
  Then: bin/assay comparisons list ${BENCHMARK}, or open the API reference at /docs`)
  return asked
}

/** Compares the mock model at two reasoning levels: first with a budget that is too small, then with a sufficient one. */
async function showModel(client: Record<string, string>): Promise<number> {
  const credential = { ...client, SCRIPTED_KEY: 'none-is-needed' }
  const added = await ended(start(['--json', 'models', 'add', MODEL, ...MODEL_FACTS], client, 'ignore'))
  if (added !== 0) return added
  const storeCredential = [
    '--json',
    'credentials',
    'add',
    'model',
    MODEL,
    '--name',
    'Script',
    '--from-env',
    'apiKey=SCRIPTED_KEY',
  ]
  const storedCode = await ended(start(storeCredential, credential, 'ignore'))
  if (storedCode !== 0) return storedCode
  console.log(`\nA scripted mock model at two reasoning levels, with a budget of $${SMALL_BUDGET}:\n`)
  const id = randomUUID()
  const models = ['low', 'high'].flatMap((level) => ['--model', `${MODEL}@${level}=mini`])
  const options = ['--sandbox', 'local', '--id', id, '--budget', SMALL_BUDGET, '--concurrency', '2']
  await ended(start(['compare', BENCHMARK, ...models, ...options], client, 'inherit'))
  console.log(`\nThe same comparison, resumed with a budget of $${BUDGET}:\n`)
  await ended(start(['comparisons', 'resume', BENCHMARK, id, '--budget', BUDGET], client))
  return ended(start(['comparisons', 'watch', BENCHMARK, id], client, 'inherit'))
}

const MODEL_FACTS = [
  ...['--name', 'scripted-1', '--label', 'Scripted', '--protocol', 'openai-chat', '--levels', 'low,high'],
  ...['--base-url', 'https://scripted.example.com/v1', '--input', '2', '--output', '10', '--cache-read', '0.2'],
]

function start(
  args: string[],
  environment: Record<string, string>,
  stdio: 'inherit' | 'pipe' | 'ignore' = 'pipe',
): ChildProcess {
  const env = { ...process.env, ...environment }
  return spawn(process.execPath, [BIN, ...args], { cwd: ROOT, env, stdio: ['ignore', stdio, 'inherit'] })
}

async function addressOf(service: ChildProcess): Promise<string> {
  if (!service.stdout) throw new Error('The standard output of the service is not piped.')
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
