import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { openFolderSource } from '../src/harbor/folder-source.ts'
import { readTask } from '../src/harbor/read-task.ts'
import { type InstalledFolder, install } from '../src/harnesses/bundles/install.ts'
import { type Harness, HOME } from '../src/harnesses/harness.ts'
import { harnesses } from '../src/harnesses/harnesses.ts'
import type { ModelAccess } from '../src/harnesses/model-access.ts'
import { bundlesFolder } from '../test/support/harnesses/scripted-gateway.ts'
import { openTrialRunner, taskToml, writeTask } from '../test/support/trials/trial-runner.ts'
import { atMost, type BenchMeasurement, type MeasureRow, median, milliseconds, note, times } from './measure.ts'

const ROUNDS = 9
const BAR_TIMES = 1.3

/** Measures how much a sandbox delays a program's first model call. */
export const harnessesBench: BenchMeasurement = {
  name: 'Harnesses',
  about:
    'From the beginning of the agent phase until the first request to a model, in a local sandbox (bwrap), compared with the same program and settings on the host, alternating. The first start in an image, which also tests whether the program fits, is excluded.',
  async run() {
    await using bench = await openTrialRunner('bwrap')
    const task = writeTask(join(bench.folder, 'task'), { 'task.toml': taskToml({ agentSec: 120 }) })
    const rows: MeasureRow[] = []
    for (const harness of harnesses.filter(({ bundle }) => bundle)) rows.push(...(await measure(bench, task, harness)))
    return rows
  },
}

type TrialBench = Awaited<ReturnType<typeof openTrialRunner>>

async function measure(bench: TrialBench, task: string, harness: Harness): Promise<MeasureRow[]> {
  const folder = await bundlesFolder()
  if (!harness.bundle) return []
  const installed = await install(harness.bundle, {
    folder,
    signal: new AbortController().signal,
    onProgress: () => {},
  })
  const host: number[] = []
  const trial: number[] = []
  for (let round = -1; round < ROUNDS; round++) {
    const [one, other] = [await startOnHost(harness, task, installed), await startInTrial(bench, task, harness, folder)]
    if (round < 0) continue // files are not in memory yet
    host.push(one)
    trial.push(other)
  }
  const [hostMs, trialMs] = [median(host), median(trial)]
  const name = `${harness.id} ${harness.version}`
  return [
    atMost(`${name}: start in a trial, ratio to its start on the host`, trialMs / hostMs, BAR_TIMES, times),
    note(`${name}: start in a trial, on the host`, `${milliseconds(trialMs)}, ${milliseconds(hostMs)}`),
  ]
}

function accessFor({ protocols }: Harness, baseUrl: string): ModelAccess {
  const [protocol = 'openai-chat'] = protocols
  const models = { 'openai-chat': 'm', 'openai-responses': 'gpt-5.5', 'anthropic-messages': 'claude-sonnet-5' }
  const model = protocol === 'gemini' ? 'gemini-3.1-pro-preview' : models[protocol]
  return {
    model,
    provider: 'bench',
    protocols: [protocol],
    protocol,
    level: 'high',
    wireLevel: { effort: 'high' },
    contextTokens: 200_000,
    outputTokens: 32_000,
    baseUrl,
    token: 'token',
  }
}

async function startInTrial(bench: TrialBench, task: string, harness: Harness, folder: string): Promise<number> {
  const abort = new AbortController()
  let [begun, reached] = [0, 0]
  const onConnection = () => {
    reached ||= performance.now()
    abort.abort()
  }
  const port = { port: 31_281, onConnection }
  const ended = bench.run(task, harness, 'workspace', {
    isProven: true,
    signal: abort.signal,
    bundles: { folder },
    model: { access: accessFor(harness, 'http://127.0.0.1:31281'), port },
    onPhase: (phase) => {
      if (phase === 'agent') begun = performance.now()
    },
  })
  const record = await ended.catch(() => undefined)
  if (reached === 0) throw new Error(`${harness.id} never asked its model. ${record?.error ?? ''}`)
  return reached - begun
}

async function startOnHost(harness: Harness, taskFolder: string, installed: InstalledFolder[]): Promise<number> {
  const home = await mkdtemp(join(tmpdir(), 'assay-bench-home-'))
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const { task } = await readTask(await openFolderSource(taskFolder))
  const kit = { solutionEnv: [], mcpServers: [], skillsDir: null }
  const run = harness.plan(task.steps[0], kit, accessFor(harness, `http://127.0.0.1:${port}`))
  if (!run) throw new Error(`${harness.id} runs nothing.`)
  const onHost = (text: string): string =>
    installed.reduce((said, { source, target }) => said.replaceAll(target, source), text.replaceAll(HOME, home))
  for (const { path, text } of run.files ?? []) {
    await mkdir(dirname(join(home, path)), { recursive: true })
    await writeFile(join(home, path), onHost(text))
  }
  const [program = '', ...words] = run.command.map(onHost)
  const env = Object.fromEntries(run.env.map(({ name, value }) => [name, onHost(value.join(''))]))
  const begun = performance.now()
  const child = spawn(program, words, {
    cwd: home,
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: home, ...env },
  })
  child.stdin.end(run.input)
  await once(server, 'connection')
  const reached = performance.now()
  process.kill(-(child.pid ?? 0), 'SIGKILL')
  await once(child, 'exit')
  server.close()
  await rm(home, { recursive: true, force: true, maxRetries: 10 })
  return reached - begun
}
