import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ROOT } from '../../scripts/files.ts'
import { copyFolder, openBareMachine, timeDemo } from '../support/bare-machine.ts'
import { hasPart } from '../support/parts.ts'

// The npm package, built and installed in an empty folder. With root as `npm install --global` does.

const BUILD = join(ROOT, 'build')
const isRoot = process.getuid?.() === 0
/** As root below /usr, which sandboxes see when they use the system files of the machine. */
const folder = mkdtempSync(join(isRoot ? '/usr/local/lib' : tmpdir(), 'assay-package-'))
/** The folder in which commands run. */
const work = mkdtempSync(join(tmpdir(), 'assay-package-work-'))
/** The programs of the machine without those of this project. */
const env = {
  PATH: (process.env.PATH ?? '')
    .split(':')
    .filter((entry) => !entry.includes('node_modules'))
    .join(':'),
  HOME: process.env.HOME,
}
const PROGRAM = join(folder, 'node_modules/.bin/assay')
const assay = (...args: string[]) => execFileSync(PROGRAM, args, { cwd: work, env, encoding: 'utf8' })

beforeAll(() => {
  execFileSync(process.execPath, [join(ROOT, 'scripts/package.ts')], { stdio: 'ignore' })
  const archive = readdirSync(BUILD).find((name) => name.endsWith('.tgz')) ?? ''
  const install = ['install', '--prefer-offline', '--no-audit', '--no-fund', join(BUILD, archive)]
  execFileSync('npm', install, { cwd: folder, env, stdio: 'ignore' })
}, 600_000)

afterAll(() => {
  for (const path of [folder, work]) rmSync(path, { recursive: true, force: true })
})

test('contains JavaScript and no tests', () => {
  const files = readdirSync(join(folder, 'node_modules/assay'), { recursive: true, encoding: 'utf8' })
  expect(files.filter((file) => /\.test\.|^(test|bench|scripts)\b|\.ts$/.test(file))).toEqual([])
  const { scripts, devDependencies, version } = JSON.parse(
    readFileSync(join(folder, 'node_modules/assay/package.json'), 'utf8'),
  )
  expect({ scripts, devDependencies }).toEqual({ scripts: undefined, devDependencies: undefined })
  expect(assay('--version').trim()).toBe(version)
})

test('comes with a list of its components and with checksums', () => {
  const sums = readFileSync(join(BUILD, 'SHA256SUMS'), 'utf8')
  expect(sums).toMatch(/^[0-9a-f]{64} {2}assay-\S+\.tgz\n[0-9a-f]{64} {2}assay-\S+\.cdx\.json\n$/)
  execFileSync('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], { cwd: BUILD })
  const sbom = JSON.parse(
    readFileSync(join(BUILD, readdirSync(BUILD).find((name) => name.endsWith('.cdx.json')) ?? ''), 'utf8'),
  )
  const names = sbom.components.map(({ name }: { name: string }) => name)
  expect(names).toContain('hono')
  expect(names).not.toContain('vitest')
})

const SANDBOX = { cwd: work, env: { ...env, ASSAY_ALLOW_HOST_BASE: '1' }, encoding: 'utf8' } as const
const canSandbox = isRoot && hasPart('bwrap')

test.skipIf(!canSandbox)('runs a trial', () => {
  const task = join(work, 'task')
  cpSync(join(folder, 'node_modules/assay/samples/tasks/greet-in-bash'), task, { recursive: true })
  const out = execFileSync(PROGRAM, ['--json', 'trial', task, '--harness', 'oracle', '--sandbox', 'local'], SANDBOX)
  expect(JSON.parse(out)).toMatchObject({ reward: 1 })
})

test.skipIf(!canSandbox)('hides its own solutions from agents that see the system files of the machine', () => {
  const solution = join(folder, 'node_modules/assay/samples/tasks/greet-in-bash/solution/solve.sh')
  expect(existsSync(solution)).toBe(true)
  const agent = `bash ${solution} || test -z "$(find ${folder} -name solve.sh)"`
  const trial = ['--json', 'trial', join(work, 'task'), '--command', agent, '--sandbox', 'local']
  expect(JSON.parse(execFileSync(PROGRAM, trial, SANDBOX))).toMatchObject({ reward: 0 })
})

test.skipIf(!canSandbox || !hasPart('debootstrap'))(
  'shows the result of the demo within 90 seconds on a machine with only Node and bubblewrap',
  async () => {
    await using root = await openBareMachine()
    await copyFolder(join(folder, 'node_modules'), join(root.folder, 'usr/local/lib/node_modules'))
    const { seconds, output } = await timeDemo(root, '/root', '/usr/local/lib/node_modules/.bin/assay demo')
    expect(output).toMatch(/^custom\/scripted\|mini\|high +5\/5 +100\.0 %/m)
    expect(seconds).toBeLessThan(90)
  },
  600_000,
)

test('serves pages and stops', async () => {
  const service = spawn(PROGRAM, ['serve', '--data', join(work, 'data'), '--port', '0'], {
    cwd: work,
    env: { ...env, ASSAY_GATEWAY_PORT: '0' },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  let url = ''
  for await (const line of createInterface({ input: service.stdout })) {
    url = /^assay ready (\S+)$/.exec(line)?.[1] ?? ''
    if (url) break
  }
  const page = await fetch(url, { headers: { accept: 'text/html' } })
  expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('<!doctype html>')])
  service.kill('SIGTERM')
  expect(await once(service, 'exit')).toEqual([0, null])
})
