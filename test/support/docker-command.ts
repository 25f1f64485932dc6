import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { ROOT } from '../../scripts/files.ts'
import type { Dockerd } from './dockerd.ts'

const run = promisify(execFile)
const HEALTHY_MS = 180_000

/** Runs the Docker command with an engine. Returns its output. */
export async function docker({ socket }: Dockerd, ...args: string[]): Promise<string> {
  const env = { PATH: process.env.PATH, DOCKER_HOST: `unix://${socket}`, DOCKER_BUILDKIT: '0' }
  const { stdout } = await run('docker', args, { cwd: ROOT, env, maxBuffer: 64e6 })
  return stdout.trim()
}

/** Packs this project and builds the image `assay` from it. */
export async function buildAssayImage(dockerd: Dockerd): Promise<void> {
  const context = await mkdtemp(join(tmpdir(), 'assay-image-'))
  try {
    await run(process.execPath, ['scripts/package.ts', join(context, 'build')], { cwd: ROOT })
    for (const name of ['Dockerfile', '.dockerignore', 'package.json', 'package-lock.json'])
      await cp(join(ROOT, name), join(context, name))
    await docker(dockerd, 'build', '--network', 'host', '--tag', 'assay', context)
  } finally {
    await rm(context, { recursive: true, force: true })
  }
}

/** Waits until the health check of a container passes. */
export async function waitUntilHealthy(dockerd: Dockerd, container: string): Promise<void> {
  const health = () => docker(dockerd, 'inspect', '--format', '{{.State.Health.Status}}', container)
  await expect.poll(health, { timeout: HEALTHY_MS, interval: 500 }).toBe('healthy')
}
