import { execFile, spawn } from 'node:child_process'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { ROOT } from '../../scripts/files.ts'
import { parseSettings } from '../../src/sandboxes/kubernetes/connection.ts'
import { hasProgram } from '../support/parts.ts'
import { importBuildBase, testKubeconfig, testRegistry } from '../support/sandboxes/kubernetes-subject.ts'
import { freePort } from '../support/system-postgres.ts'
import { page } from './pages.ts'

const run = promisify(execFile)
const { text } = page('docs/kubernetes.md')
const STEP_MS = 600_000

/** Files of the page, by the name in their first line. */
const files = [...text.matchAll(/^```yaml\n# (\S+)\n([\s\S]*?)^```$/gm)].map(([, name = '', content = '']) => ({
  name,
  content,
}))
const blocks = [...text.matchAll(/^```sh cluster\n([\s\S]*?)^```$/gm)].map(([, commands = '']) => commands.trim())

/** Block that needs a registry, and its settings, for which tests use a registry of their own. */
const [, registryBlock = ''] = /^```sh cluster registry\n([\s\S]*?)^```$/m.exec(text) ?? []
const [, registrySettings = ''] = /^```yaml\n# kubernetes\.yaml, continued\n([\s\S]*?)^```$/m.exec(text) ?? []

const [, volumeSettings = ''] = /^```yaml\n# kubernetes\.yaml, with shared volumes\n([\s\S]*?)^```$/m.exec(text) ?? []

test('the settings of shared volumes are valid', () => {
  const settings = parseSettings(`${files.find(({ name }) => name === 'kubernetes.yaml')?.content}${volumeSettings}`)
  expect(settings.volumes).toEqual({ storageClass: 'standard', size: '10Gi' })
})

test('the settings of a registry are valid', () => {
  const settings = parseSettings(`${files.find(({ name }) => name === 'kubernetes.yaml')?.content}${registrySettings}`)
  expect(settings.registry?.repository).toBe('images.example.com/assay')
})

describe.runIf(testKubeconfig !== undefined && hasProgram('kubectl'))('docs/kubernetes.md in a cluster', () => {
  const folder = mkdtempSync(join(tmpdir(), 'assay-kubernetes-docs-'))
  const services: Service[] = []
  let env: Record<string, string | undefined>

  const shell = async (command: string): Promise<string> =>
    (await run('bash', ['-euo', 'pipefail', '-c', command], { cwd: folder, env, maxBuffer: 64e6 })).stdout

  beforeAll(async () => {
    const port = await freePort()
    env = {
      PATH: process.env.PATH,
      HOME: folder,
      KUBECONFIG: testKubeconfig,
      ASSAY_DATA: join(folder, 'data'),
      ASSAY_PORT: String(port),
      ASSAY_URL: `http://127.0.0.1:${port}`,
    }
    expect(await shell('kubectl get namespace assay --ignore-not-found'), 'The namespace assay exists already.').toBe(
      '',
    )
    for (const name of ['bin', 'samples']) symlinkSync(join(ROOT, name), join(folder, name))
    for (const { name, content } of files) writeFileSync(join(folder, name), content)
  })

  afterAll(async () => {
    for (const service of services) await service.stop()
    await shell('kubectl delete namespace assay --ignore-not-found --timeout=180s')
    rmSync(folder, { recursive: true, force: true })
  }, STEP_MS)

  test('every command succeeds, from an empty namespace to the first comparison', { timeout: STEP_MS }, async () => {
    expect(files.map(({ name }) => name)).toEqual(['assay.yaml', 'kubernetes.yaml'])
    expect(blocks).toHaveLength(4)
    const outputs: string[] = []
    for (const block of blocks) {
      if (!block.endsWith('assay serve')) {
        outputs.push(await shell(block))
        continue
      }
      const service = await startService(block, folder, env)
      services.push(service)
      env = { ...env, ASSAY_KEY: service.key }
    }
    const [, trial, comparison] = outputs
    expect(trial).toContain('passed')
    expect(comparison).toMatch(/oracle.*100/)
    expect(comparison).toMatch(/nop.* 0/)
    expect(await shell('kubectl -n assay get pods -o name')).toBe('')
  })

  test.skipIf(testRegistry === undefined)(
    'a task with a Dockerfile is built and run',
    { timeout: STEP_MS },
    async () => {
      await importBuildBase(join(folder, 'data'))
      const settings = { registry: parse(readFileSync(testRegistry ?? '', 'utf8')) }
      appendFileSync(join(folder, 'kubernetes.yaml'), stringify(settings))
      expect(await shell(registryBlock)).toContain('passed')
    },
  )
})

type Service = { key: string; stop(): Promise<unknown> }

/** Runs a command that keeps running until it says that it is ready. */
async function startService(command: string, cwd: string, env: Record<string, string | undefined>): Promise<Service> {
  const child = spawn('bash', ['-c', `exec env ${command}`], { cwd, env, stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = new Promise((resolve) => child.once('exit', resolve))
  let key = ''
  for await (const line of createInterface({ input: child.stdout })) {
    key ||= /assay_\w{38}/.exec(line)?.[0] ?? ''
    if (!line.startsWith('assay ready')) continue
    const stop = () => {
      child.kill('SIGTERM')
      return exited
    }
    return { key, stop }
  }
  throw new Error(`${command} ended before it was ready.`)
}
