import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ROOT } from '../../scripts/files.ts'
import { hasPart } from '../support/parts.ts'

// The npm package, built and installed in an empty folder.

const BUILD = join(ROOT, 'build')
const folder = mkdtempSync(join(tmpdir(), 'assay-package-'))
/** The programs of the machine without those of this project. */
const env = {
  PATH: (process.env.PATH ?? '')
    .split(':')
    .filter((entry) => !entry.includes('node_modules'))
    .join(':'),
  HOME: process.env.HOME,
}
const PROGRAM = join(folder, 'node_modules/.bin/assay')
const assay = (...args: string[]) => execFileSync(PROGRAM, args, { cwd: folder, env, encoding: 'utf8' })

beforeAll(() => {
  execFileSync(process.execPath, [join(ROOT, 'scripts/package.ts')], { stdio: 'ignore' })
  const archive = readdirSync(BUILD).find((name) => name.endsWith('.tgz')) ?? ''
  const install = ['install', '--prefer-offline', '--no-audit', '--no-fund', join(BUILD, archive)]
  execFileSync('npm', install, { cwd: folder, env, stdio: 'ignore' })
}, 600_000)

afterAll(() => rmSync(folder, { recursive: true, force: true }))

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

test.skipIf(process.getuid?.() !== 0 || !hasPart('bwrap'))('runs a trial', () => {
  const task = join(folder, 'task')
  cpSync(join(folder, 'node_modules/assay/samples/tasks/greet-in-bash'), task, { recursive: true })
  const out = execFileSync(PROGRAM, ['--json', 'trial', task, '--harness', 'oracle', '--sandbox', 'local'], {
    cwd: folder,
    env: { ...env, ASSAY_ALLOW_HOST_BASE: '1' },
    encoding: 'utf8',
  })
  expect(JSON.parse(out)).toMatchObject({ reward: 1 })
})

test('serves pages and stops', async () => {
  const service = spawn(PROGRAM, ['serve', '--data', join(folder, 'data'), '--port', '0'], {
    cwd: folder,
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
