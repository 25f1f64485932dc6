import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Command } from 'commander'
import { startProvider } from '../samples/provider/provider.ts'
import { requireOwnDataFolder } from '../src/platform/data-folder.ts'
import { newKey } from '../src/workspaces/key.ts'
import { InfrastructureFailed } from './failure.ts'
import { withExample, withGlobals } from './help.ts'
import { isOnPath } from './setup/machine.ts'
import { print, type Shell } from './shell.ts'

const ROOT = join(import.meta.dirname, '..')
const ASSAY_PROGRAM = join(ROOT, 'bin/assay')
const BENCHMARK = 'assay/quick'

/** A scripted mock model. The gateway calls it like a real one. */
const MODEL = 'custom/scripted'
const SCRIPT = join(ROOT, 'samples/provider/quick.json')
/** Budget in USD that covers one or two trials. The comparison pauses before it spends more. */
const SMALL_BUDGET = '0.01'
const SUFFICIENT_BUDGET = '5'

/** Matches the line with which the service prints its address. */
const READY_LINE = /^assay ready (\S+)$/

/** Adds `assay demo`, which needs no API keys, network or Docker. */
export function addDemoCommand(assay: Command, shell: Shell): void {
  withExample(
    withGlobals(assay.command('demo'))
      .description('Compare settings on bundled tasks, without API keys, network or Docker')
      .option('--data <folder>', 'Data folder of the demo (ASSAY_DATA, .assay-demo)')
      .action((flags: { data?: string }) =>
        runDemo(shell, flags.data ?? (shell.env.ASSAY_DATA || requireDefaultFolder())),
      ),
    'assay demo',
  )
}

/** Returns the default folder. Throws if Assay did not create it on this machine, because it may be part of a clone. */
function requireDefaultFolder(): string {
  requireOwnDataFolder('.assay-demo')
  return '.assay-demo'
}

/** `client` has the variables with which commands reach the service of the demo. */
type Demo = { shell: Shell; data: string; client: Record<string, string> }

async function runDemo(shell: Shell, data: string): Promise<void> {
  if (!isOnPath(shell, 'bwrap') && !isOnPath(shell, 'runc'))
    throw new InfrastructureFailed('Trials need bwrap or runc, but neither is installed. Run: assay setup --yes bwrap')
  const key = newKey()
  await using mockProvider = await startProvider(JSON.parse(readFileSync(SCRIPT, 'utf8')))
  const service = start(shell, ['serve', '--data', data, '--port', '0'], {
    ASSAY_BOOTSTRAP_KEY: key,
    // Only the operator may configure an address of this machine; a workspace may not.
    ASSAY_GATEWAY_UPSTREAM_CUSTOM_SCRIPTED: `${mockProvider.url}/v1`,
    // Uses the machine's own system files as the base image, so that nothing has to be downloaded.
    ASSAY_ALLOW_HOST_BASE: '1',
    ASSAY_REGISTRIES: 'samples',
    ASSAY_LOG: 'error',
  })
  const ended = once(service, 'exit')
  const stop = () => service.kill('SIGTERM')
  process.once('SIGINT', stop)
  process.once('SIGTERM', stop)
  try {
    const url = await readAddress(service)
    const comparisonId = await showComparisons({ shell, data, client: { ASSAY_URL: url, ASSAY_KEY: key } })
    if (shell.output.isTTY) {
      const page = `${url}/app/benchmarks/${BENCHMARK}/comparisons/${comparisonId}`
      print(shell, '', `The result: ${page}`, `Sign in with this key: ${key}`, 'Ctrl-C stops the service.')
      await ended
    }
  } finally {
    stop()
    await ended
  }
}

/** Runs all comparisons and returns the id of the last one. */
async function showComparisons(demo: Demo): Promise<string> {
  const { shell, data } = demo
  await run(demo, ['benchmarks', 'add', BENCHMARK])
  print(shell, '', `The reference solution and a no-op on the tasks of ${BENCHMARK}:`, '')
  await run(demo, ['compare', BENCHMARK, '--sandbox', 'local'])
  const comparisonId = await showModel(demo)
  print(
    shell,
    '',
    'Next steps:',
    `  The results are in ${data}. Start the service with them: assay serve --data ${data}`,
    `  Create a key: assay keys recover --data ${data}`,
    `  Then: assay comparisons list ${BENCHMARK}, or open /app of the service in a browser`,
  )
  return comparisonId
}

/** Compares the mock model at two reasoning levels: first with a budget that is too small, then with a sufficient one. */
async function showModel(demo: Demo): Promise<string> {
  const { shell } = demo
  await run(demo, ['--json', 'models', 'add', MODEL, ...MODEL_FACTS], 'ignore')
  const credential = ['credentials', 'add', 'model', MODEL, '--name', 'Script', '--from-env', 'apiKey=SCRIPTED_KEY']
  await run(demo, ['--json', ...credential], 'ignore')
  print(shell, '', `A scripted mock model at two reasoning levels, with a budget of $${SMALL_BUDGET}:`, '')
  const id = randomUUID()
  const models = ['low', 'high'].flatMap((level) => ['--model', `${MODEL}@${level}=mini`])
  const options = ['--sandbox', 'local', '--id', id, '--budget', SMALL_BUDGET, '--concurrency', '2']
  // The command exits with an error, because the comparison pauses.
  await runToEnd(demo, ['compare', BENCHMARK, ...models, ...options])
  print(shell, '', `The same comparison, resumed with a budget of $${SUFFICIENT_BUDGET}:`, '')
  await run(demo, ['comparisons', 'resume', BENCHMARK, id, '--budget', SUFFICIENT_BUDGET], 'ignore')
  await run(demo, ['comparisons', 'watch', BENCHMARK, id])
  return id
}

const MODEL_FACTS = [
  ...['--name', 'scripted-1', '--label', 'Scripted', '--protocol', 'openai-chat', '--levels', 'low,high'],
  ...['--base-url', 'https://scripted.example.com/v1', '--input', '2', '--output', '10', '--cache-read', '0.2'],
]

type OutputTarget = 'inherit' | 'pipe' | 'ignore'

/** Runs a command. Throws if it fails. */
async function run(demo: Demo, args: string[], output: OutputTarget = 'inherit'): Promise<void> {
  const code = await runToEnd(demo, args, output)
  if (code !== 0) throw new Error(`assay ${args.join(' ')} exited with ${code}.`)
}

/** Runs a command and returns its exit code. */
async function runToEnd(
  { shell, client }: Demo,
  args: string[],
  output: OutputTarget = 'inherit',
): Promise<number | null> {
  const child = start(shell, args, { ...client, SCRIPTED_KEY: 'none-is-needed' }, output)
  const [code] = await once(child, 'exit')
  return code
}

function start(
  { env }: Shell,
  args: string[],
  environment: Record<string, string>,
  output: OutputTarget = 'pipe',
): ChildProcess {
  return spawn(process.execPath, [ASSAY_PROGRAM, ...args], {
    env: { ...env, ...environment },
    stdio: ['ignore', output, 'inherit'],
  })
}

async function readAddress(service: ChildProcess): Promise<string> {
  if (!service.stdout) throw new Error('The standard output of the service is not piped.')
  for await (const line of createInterface({ input: service.stdout })) {
    const url = READY_LINE.exec(line)?.[1]
    if (url) return url
  }
  throw new Error('The service did not start.')
}
