import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { ROOT } from '../../scripts/files.ts'
import { cacheFolder } from '../support/base-image.ts'
import { isLongRun } from '../support/parts.ts'

const run = promisify(execFile)

/** Not a dependency: 133 packages for one test. */
const PACKAGE = '@stoplight/spectral-cli@6.16.3'

/** Returns the path of Spectral, or undefined. Only CI and the long run download it. */
async function findSpectral(): Promise<string | undefined> {
  const folder = join(await cacheFolder(), 'spectral-6.16.3')
  const program = join(folder, 'node_modules/.bin/spectral')
  if (existsSync(program)) return program
  if (!isLongRun() && !process.env.CI) return undefined
  const draft = `${folder}.draft`
  await rm(draft, { recursive: true, force: true })
  await run('npm', ['install', '--prefix', draft, '--ignore-scripts', '--no-audit', '--no-fund', PACKAGE])
  await rename(draft, folder)
  return program
}

test('the OpenAPI document passes the rules of Spectral', { timeout: 300_000 }, async ({ skip }) => {
  const spectral = await findSpectral()
  if (!spectral) return skip('Spectral is not in the cache')
  const ruleset = join(await cacheFolder(), 'spectral.json')
  await writeFile(ruleset, JSON.stringify({ extends: ['spectral:oas'] }))
  const args = [spectral, 'lint', '--ruleset', ruleset, '--fail-severity', 'hint', join(ROOT, 'docs/openapi.json')]
  const { stdout } = await run(process.execPath, args, { cwd: ROOT })
  expect(stdout).toContain('No results')
})
