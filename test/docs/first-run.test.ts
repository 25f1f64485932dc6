import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startProvider } from '../../samples/provider/provider.ts'
import { ProviderScript } from '../../samples/provider/script.ts'
import { ROOT } from '../../scripts/files.ts'
import { copyFolder, openBareMachine, timeDemo } from '../support/bare-machine.ts'
import { hasPart, isLongRun } from '../support/parts.ts'
import { listFirstRunCommands } from './first-run.ts'

vi.setConfig({ testTimeout: isLongRun() ? 1_800_000 : 240_000 })

const canRun = hasPart('bwrap') && existsSync(join(ROOT, '.git'))

test.runIf(canRun)('a fresh clone runs the first trial of your own model after at most three commands', async () => {
  const [install, ...commands] = listFirstRunCommands()
  expect(install).toBe('npm ci')
  expect(commands.at(-1)).toContain('--base-url http://127.0.0.1:11434/v1')
  expect(commands.length).toBeLessThanOrEqual(3)

  const folder = mkdtempSync(join(tmpdir(), 'assay-first-run-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const clone = join(folder, 'assay')
  await shell(`git clone --quiet '${ROOT}' '${clone}'`, folder)
  // The short run saves the installation, which .ci/run has just done.
  if (isLongRun()) await shell('npm ci', clone)
  else symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'))

  const script = ProviderScript.parse(JSON.parse(readFileSync(join(ROOT, 'samples/provider/quick.json'), 'utf8')))
  await using provider = await startProvider(script)
  let output = ''
  for (const command of commands)
    output = await shell(command.replaceAll('127.0.0.1:11434', new URL(provider.url).host), clone)
  expect(output).toContain('1 of 1 passed')
  expect(provider.calls().length).toBeGreaterThan(0)
})

test.runIf(canRun && hasPart('debootstrap'))(
  'a fresh clone shows the result of the demo within 90 seconds on a machine with only Node, git and bubblewrap',
  async () => {
    await using root = await openBareMachine('git')
    const clone = join(root.folder, 'root/assay')
    await shell(`git clone --quiet '${ROOT}' '${clone}'`, root.folder)
    await copyFolder(join(ROOT, 'node_modules'), join(clone, 'node_modules'))
    const { seconds, output } = await timeDemo(root, '/root/assay', 'npm run demo')
    expect(output).toMatch(/^custom\/scripted\|mini\|high +5\/5 +100\.0 %/m)
    expect(seconds).toBeLessThan(90)
  },
)

/** Runs a command as a new user does: without settings for Assay, and with the machine's own Node. */
async function shell(command: string, cwd: string): Promise<string> {
  const settings = Object.entries(process.env).filter(([name]) => !/^ASSAY_|^NODE_ENV$/.test(name))
  const folders = (process.env.PATH ?? '').split(delimiter).filter((path) => !path.startsWith(ROOT))
  const env = { ...Object.fromEntries(settings), PATH: folders.join(delimiter) }
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', command], { cwd, env })
  return stdout
}
