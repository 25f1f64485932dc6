import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { SYSTEM_PARTS, type SystemPackageManager } from './setup/parts.ts'
import { planInstallation } from './setup/plan.ts'

const BIN = join(import.meta.dirname, '../bin/assay')

/** Creates a PATH with only these commands. Each records its arguments. */
function machine(commands: Record<string, string>) {
  const folder = mkdtempSync(join(tmpdir(), 'assay-setup-'))
  const bin = join(folder, 'bin')
  const log = join(folder, 'calls')
  mkdirSync(bin)
  writeFileSync(log, '')
  const install = (name: string, body: string) =>
    writeFileSync(join(bin, name), `#!/bin/sh\necho "${name} $*" >> ${log}\n${body}\n`, { mode: 0o755 })
  for (const [name, body] of Object.entries(commands)) install(name, body.replaceAll('BIN', bin))
  return {
    setup(...args: string[]) {
      const { status, stdout, stderr } = spawnSync(process.execPath, [BIN, 'setup', ...args], {
        env: { PATH: bin, HOME: folder },
        encoding: 'utf8',
        input: '',
      })
      return { status, output: stdout + stderr, calls: readFileSync(log, 'utf8') }
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** Simulates the installation of a package by creating its program. */
const INSTALLS_RUNC = 'case "$*" in *install*runc*) printf "#!/bin/sh\\n" > BIN/runc; /bin/chmod 755 BIN/runc;; esac'
const AS_ROOT = { env: 'shift; exec "$@"', sudo: 'exec "$@"' }

test('an installed part is not installed again', () => {
  using debian = machine({ 'apt-get': '', runc: '' })
  expect(debian.setup('--yes', 'runc')).toMatchObject({ status: 0, calls: '' })
})

test('with --yes a missing part is installed after the lists are refreshed', () => {
  using debian = machine({ 'apt-get': INSTALLS_RUNC, ...AS_ROOT })
  const { status, output, calls } = debian.setup('--yes', 'runc')
  expect(output).toContain('Installed: runc.')
  expect(status).toBe(0)
  const [first = '', ...rest] = calls.split('\n').filter((line) => line.startsWith('apt-get'))
  expect(first).toBe('apt-get update -q')
  expect(rest).toEqual(['apt-get install -q -y --no-install-recommends runc'])
})

test('without a terminal and without --yes it only prints what it would run', () => {
  using debian = machine({ 'apt-get': INSTALLS_RUNC, ...AS_ROOT })
  const { status, output, calls } = debian.setup('runc', 'bwrap')
  expect(output).toContain('apt-get install -q -y --no-install-recommends runc bubblewrap')
  expect({ status, calls }).toEqual({ status: 1, calls: '' })
})

test('without names it shows all parts and leaves out those that only tests use', () => {
  using debian = machine({
    'apt-get': '',
    git: '',
    buildah: '',
    runc: '',
    ip: '',
    bwrap: '',
    dockerd: '',
  })
  const { status, output } = debian.setup('--yes')
  for (const { name } of SYSTEM_PARTS) expect(output).toMatch(new RegExp(`^${name} +(installed|missing)`, 'm'))
  expect(output).toContain('Everything needed is installed.')
  expect(status).toBe(0)
})

test('python without its venv module counts as missing', () => {
  using debian = machine({ 'apt-get': '', python3: 'exit 1' })
  expect(debian.setup('python').output).toContain('python3 python3-venv')
})

test('a failure of the package manager is reported', () => {
  using debian = machine({ 'apt-get': 'case "$1" in install) exit 100;; esac', ...AS_ROOT })
  const { status, output } = debian.setup('--yes', 'runc')
  expect(output).toMatch(/apt-get install .* failed\./)
  expect(status).toBe(1)
})

test('a package without its program does not count as installed', () => {
  using debian = machine({ 'apt-get': '', ...AS_ROOT })
  const { status, output } = debian.setup('--yes', 'runc')
  expect(output).toContain('runc cannot be found')
  expect(status).toBe(1)
})

test('an unknown part is refused with the list of known ones', () => {
  using debian = machine({ 'apt-get': '' })
  const { status, output, calls } = debian.setup('--yes', 'runc', 'emacs')
  expect(output).toContain('Unknown part emacs. Available: git, postgres,')
  expect({ status, calls }).toEqual({ status: 2, calls: '' })
})

test('a system without a known package manager or package gets a message', () => {
  using bare = machine({})
  expect(bare.setup('--yes', 'runc')).toMatchObject({ status: 1, output: expect.stringContaining('by hand: runc') })
  using mac = machine({ brew: '' })
  expect(mac.setup('--yes', 'runc')).toMatchObject({
    status: 1,
    output: expect.stringContaining('brew has no known package for: runc'),
  })
})

const git = SYSTEM_PARTS.filter(({ name }) => name === 'git')

const ordinaryUser: [SystemPackageManager, string][] = [
  ['apt-get', 'sudo apt-get update -q'],
  ['apt-get', 'sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends git'],
  ['dnf', 'sudo dnf install -y git'],
  ['apk', 'sudo apk add git'],
  ['pacman', 'sudo pacman -S --needed --noconfirm git'],
  ['brew', 'brew install git'],
]
test.each(ordinaryUser)('an ordinary user with sudo and %s runs %s', (manager, command) => {
  const plan = planInstallation(git, { manager, isRoot: false, hasSudo: true })
  expect('commands' in plan && plan.commands.map((words) => words.join(' '))).toContain(command)
})

test('an ordinary user without sudo gets the commands to run as root', () => {
  const plan = planInstallation(git, { manager: 'apk', isRoot: false, hasSudo: false })
  expect(plan).toEqual({ refusal: 'Run this as root:\n  apk add git' })
})

test('--help names every part', () => {
  using debian = machine({ 'apt-get': '' })
  const { status, output, calls } = debian.setup('--help')
  expect({ status, calls }).toEqual({ status: 0, calls: '' })
  expect(output).toMatch(/^Usage: assay setup/)
  for (const { name } of SYSTEM_PARTS) expect(output).toContain(name)
})
