import { execFile, execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../../scripts/files.ts'
import { cacheFolder } from './base-image.ts'
import { hasProgram, isLongRun } from './parts.ts'

const run = promisify(execFile)

export const CHART = join(ROOT, 'deploy/helm/assay')

/** Built from its module where it is not installed, because no other source can be assumed. */
const MODULE = 'helm.sh/helm/v3/cmd/helm@v3.19.0'

/** Returns the path of Helm, or undefined. Only the long run builds it, which takes minutes. */
export async function findHelm(): Promise<string | undefined> {
  if (hasProgram('helm')) return 'helm'
  const folder = join(await cacheFolder(), 'bin')
  const program = join(folder, 'helm')
  if (existsSync(program)) return program
  if (!isLongRun() || !hasProgram('go')) return undefined
  const env = { PATH: process.env.PATH, HOME: homedir(), GOBIN: folder, CGO_ENABLED: '0' }
  execFileSync('go', ['install', MODULE], { env, stdio: 'ignore' })
  return program
}

/** Runs Helm and returns its output. Throws with its messages. */
export async function helm(program: string, args: string[], env: Record<string, string> = {}): Promise<string> {
  const { stdout } = await run(program, args, {
    env: { PATH: process.env.PATH, HOME: homedir(), ...env },
    maxBuffer: 64e6,
  })
  return stdout
}
