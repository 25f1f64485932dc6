import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import type { NamespaceProcess } from '../kernel/namespace-process.ts'
import { createPipePool } from './process-io.ts'

const shell = {
  runOrThrow: async (_step: string, script: string) => (await promisify(execFile)('sh', ['-c', script])).stdout,
} as NamespaceProcess

test('a pool of pipes works again after its folder could not be created', async () => {
  const parent = await mkdtemp(join(tmpdir(), 'assay-pipes-'))
  onTestFinished(() => rm(parent, { recursive: true }))
  const folder = join(parent, 'store')
  const pool = createPipePool({ folder })
  await writeFile(folder, '')
  await expect(pool.put(shell, join(parent, 'pipe'))).rejects.toThrow()
  await rm(folder)
  await mkdir(folder)
  await pool.put(shell, join(parent, 'pipe'))
  expect((await stat(join(parent, 'pipe'))).isFIFO()).toBe(true)
})
