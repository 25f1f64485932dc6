import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ROOT } from '../../scripts/files.ts'
import { assay } from '../support/assay-command.ts'
import { type ServiceProcess, startService } from '../support/service.ts'
import { listFirstRunCommands } from './first-run.ts'
import { page, pages } from './pages.ts'
import { READS_A_RELEASE } from './reads-a-release.ts'

const FIRST_RUN = listFirstRunCommands().at(-1) ?? ''

/** Blocks that another test runs. */
const RUN_ELSEWHERE: Record<string, string> = {
  'npm ci && npm run setup -- --yes bwrap && npm run demo': '.ci/run installs; test/demo/ runs the demo',
  'npm start': 'test/serve/ starts the program as npm start does',
  'bin/assay compare assay/quick': 'test/demo/ compares on it',
  [FIRST_RUN]: 'test/docs/first-run.test.ts has a model server',
  [READS_A_RELEASE]: 'test/docs/releases.test.ts has something published',
}

type Block = { path: string; text: string; stopped: boolean }

/** `sh` blocks run while the service runs. `sh stopped` blocks run while it is stopped; it must restart afterwards. */
const blocks: Block[] = pages.flatMap(({ path, text }) =>
  [...text.matchAll(/^```sh( stopped)?\n([\s\S]*?)^```$/gm)].map(([, stopped, commands = '']) => ({
    path,
    text: commands.trim(),
    stopped: stopped !== undefined,
  })),
)

const folder = mkdtempSync(join(tmpdir(), 'assay-docs-'))
const data = join(folder, 'data')
let service: ServiceProcess
let key = ''

const start = (): Promise<ServiceProcess> =>
  startService('serve', ['--data', data, '--port', '0'], { ASSAY_ALLOW_HOST_BASE: '1', ASSAY_SANDBOXES: 'local' })

beforeAll(async () => {
  service = await start()
  key = service.newKey ?? ''
})

afterAll(async () => {
  await service.kill('SIGTERM')
  rmSync(folder, { recursive: true, force: true })
})

const toRun = blocks.filter(({ text }) => !(text in RUN_ELSEWHERE))

const canSandbox = process.getuid?.() === 0 && spawnSync('bwrap', ['--version']).status === 0
const hasCurl = spawnSync('curl', ['--version']).status === 0

test.for(toRun)('$path: $text', async ({ text, stopped }, { skip }) => {
  skip(text.includes('curl') && !hasCurl, 'curl is missing')
  skip(/assay (run|trial|calibrate|compare)/.test(text) && !canSandbox, 'root or bubblewrap is missing')
  skip(/assay scan/.test(text) && !existsSync(join(ROOT, '.git')), 'this is no clone')
  if (stopped) await service.kill('SIGTERM')
  const { status, output } = shell(text)
  expect(status, output).toBe(0)
  if (stopped) await startAgain()
})

async function startAgain(): Promise<void> {
  service = await start()
  const answer = await fetch(`${service.url}/api/key`, { headers: { authorization: `Bearer ${key}` } })
  expect({ status: answer.status, newKey: service.newKey }).toEqual({ status: 200, newKey: undefined })
}

test('every block that another test runs still exists in a page', () => {
  expect(Object.keys(RUN_ELSEWHERE).filter((text) => !blocks.some((block) => block.text === text))).toEqual([])
})

test('every npm script that a page names exists', () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const named = namedBy(/`npm run ([\w:]+)/g)
  expect(named.filter((name) => !(name in scripts))).toEqual([])
})

test('every command of assay that a page names exists', async () => {
  const named = namedBy(/`(?:bin\/)?assay ([a-z][a-z-]*(?: [a-z][a-z-]*)?)[ `]/g).filter(
    (words) => !/^(?:ready|help)/.test(words),
  )
  expect(named.length).toBeGreaterThan(5)
  for (const words of named) {
    const { out } = await assay([...words.split(' '), '--help'])
    expect(out).toMatch(new RegExp(`^Usage: assay ${words}\\b`))
  }
})

test('the table of commands in README.md lists every command', () => {
  const known = [...shell('bin/assay --help').output.matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name)
  const table = page('README.md').text.split('## Commands')[1]?.split('\n## ')[0] ?? ''
  expect(known.length).toBeGreaterThan(20)
  expect(known.filter((name) => !table.includes(`\`assay ${name}\``))).toEqual([])
})

const namedBy = (pattern: RegExp): string[] => [
  ...new Set(pages.flatMap(({ text }) => [...text.matchAll(pattern)].map(([, name = '']) => name))),
]

function shell(text: string): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync('bash', ['-euo', 'pipefail', '-c', text], {
    cwd: ROOT,
    encoding: 'utf8',
    input: '',
    timeout: 110_000,
    env: {
      ...process.env,
      PATH: `${join(ROOT, 'node_modules/.bin')}:${process.env.PATH}`,
      ASSAY_DATA: data,
      ASSAY_URL: service.url,
      ASSAY_KEY: key,
    },
  })
  return { status, output: stdout + stderr }
}
