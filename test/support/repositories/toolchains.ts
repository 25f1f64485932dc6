// Runs the toolchains of each language on this machine, independently of our own code.
import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import type { SampleRepository, SourceTree } from './repository.ts'

/** Status of each test. A file that could not be loaded is an error and often has no test names. */
export type Ended = Map<string, 'passed' | 'failed' | 'error'>

export type Toolchain = {
  program: string
  isTest: (path: string) => boolean
  isSource: (path: string) => boolean
  run: (folder: string, env?: Record<string, string>) => Promise<Ended>
}

const PROJECT = fileURLToPath(new URL('../../../', import.meta.url))

export async function writeTree(folder: string, tree: SourceTree): Promise<string> {
  for (const [path, text] of tree) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), Buffer.from(text, 'latin1'))
  }
  return folder
}

/** The last option lets other files run when one cannot be loaded. */
const PYTEST = ['-m', 'pytest', '-q', '-rA', '--tb=no', '-p', 'no:cacheprovider', '--continue-on-collection-errors']

export const toolchains: Record<SampleRepository['language'], Toolchain> = {
  python: {
    program: 'python3',
    isTest: (path) => path.startsWith('tests/'),
    isSource: (path) => path.startsWith('tally/') && path.endsWith('.py'),
    run: async (folder, env) => {
      // An unreachable proxy disables the network.
      const out = await output('python3', PYTEST, folder, { http_proxy: 'http://127.0.0.1:9', ...env })
      const kinds = { PASSED: 'passed', FAILED: 'failed', ERROR: 'error' } as const
      const lines = [...out.matchAll(/^(PASSED|FAILED|ERROR) (\S+::\S+|\S+\.py)/gm)]
      return new Map(lines.map(([, word, id = '']) => [id, kinds[z.enum(['PASSED', 'FAILED', 'ERROR']).parse(word)]]))
    },
  },
  typescript: {
    program: 'node',
    isTest: (path) => path.startsWith('test/'),
    isSource: (path) => path.startsWith('src/'),
    run: async (folder) => {
      await symlink(join(PROJECT, 'node_modules'), join(folder, 'node_modules'))
      const report = join(folder, 'report.json')
      await output(process.execPath, [
        ...[join(PROJECT, 'node_modules/vitest/vitest.mjs'), 'run', '--root', folder],
        ...['--config', await emptyConfig(folder), '--reporter=json', `--outputFile=${report}`],
      ])
      return vitestEnded(await readFile(report, 'utf8'))
    },
  },
  go: {
    program: 'go',
    isTest: (path) => path.endsWith('_test.go'),
    isSource: (path) => path.endsWith('.go') && !path.endsWith('_test.go'),
    run: async (folder) => {
      const out = await output('go', ['test', '-json', '-count=1', '-timeout=120s', './...'], folder, {
        GOTOOLCHAIN: 'local',
      })
      return goEnded(out)
    },
  },
  rust: {
    program: 'cargo',
    isTest: (path) => path.startsWith('tests/'),
    isSource: (path) => path.startsWith('src/'),
    run: async (folder) => {
      const whole = await cargoTest(folder, [])
      if (whole.size > 0) return whole
      // Each file runs alone, because one that does not compile would stop all others.
      const files = (await readdir(join(folder, 'tests'))).map((name) => name.replace(/\.rs$/, ''))
      const each: Ended[] = []
      for (const file of files) each.push(await cargoTest(folder, ['--test', file]))
      return new Map(each.flatMap((ended) => [...ended]))
    },
  },
}

async function cargoTest(folder: string, args: string[]): Promise<Ended> {
  const env = { CARGO_TARGET_DIR: join(dirname(folder), 'target'), CARGO_TERM_COLOR: 'never' }
  const out = await output('cargo', ['test', '--offline', '--no-fail-fast', ...args], folder, env)
  const lines = [...out.matchAll(/^test (\S+) \.\.\. (ok|FAILED)$/gm)]
  return new Map(lines.map(([, id = '', word]) => [id, word === 'ok' ? 'passed' : 'failed']))
}

const VitestReport = z.object({
  testResults: z.array(
    z.object({ assertionResults: z.array(z.object({ fullName: z.string(), status: z.string() })), name: z.string() }),
  ),
})

function vitestEnded(report: string): Ended {
  const { testResults } = VitestReport.parse(JSON.parse(report))
  const file = (name: string) => name.slice(name.lastIndexOf('/') + 1)
  const ended: Ended = new Map()
  for (const { name, assertionResults } of testResults) {
    if (assertionResults.length === 0) ended.set(file(name), 'error')
    for (const { fullName, status } of assertionResults)
      ended.set(`${file(name)} ${fullName}`, status === 'passed' ? 'passed' : 'failed')
  }
  return ended
}

/** Isolates the settings of this project from those of the other. */
async function emptyConfig(folder: string): Promise<string> {
  const file = join(folder, 'vitest.config.mjs')
  await writeFile(file, 'export default {}\n')
  return file
}

const GoEvent = z.object({ Action: z.string(), Package: z.string().optional(), Test: z.string().optional() })

function goEnded(out: string): Ended {
  const events = out.split('\n').filter((line) => line.startsWith('{'))
  const ends = events
    .map((line) => GoEvent.parse(JSON.parse(line)))
    .filter(({ Action, Test }) => Test !== undefined && ['pass', 'fail'].includes(Action))
  return new Map(
    ends.map(({ Action, Package, Test }) => [`${Package} ${Test}`, Action === 'pass' ? 'passed' : 'failed']),
  )
}

/** Returns the output whatever the exit code, because failing tests make a runner fail, and wrong code may never end. */
function output(program: string, args: string[], cwd?: string, env: Record<string, string> = {}): Promise<string> {
  const known = Object.entries(process.env).filter(([name]) => !/^(VITEST|NODE_ENV$|TEST$|PYTEST)/.test(name))
  return new Promise((resolve, reject) => {
    const limits = { maxBuffer: 64 * 1024 * 1024, timeout: 300_000, killSignal: 'SIGKILL' } as const
    const options = { cwd, env: { ...Object.fromEntries(known), ...env }, ...limits }
    execFile(program, args, options, (error, out) =>
      error && typeof error.code !== 'number' && !error.killed ? reject(error) : resolve(out),
    )
  })
}
