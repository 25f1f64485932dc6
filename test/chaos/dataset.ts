import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const SAMPLES = new URL('../../samples/tasks/', import.meta.url).pathname

export const CHAOS = { org: 'local', datasetOrg: 'lab', dataset: 'chaos' }

/** Writes a registry folder with this many small, distinct copies of a sample task, which may get another memory limit. */
export function writeDataset(registry: string, tasks: number, sample = 'greet-in-bash', memoryMb?: number): void {
  const instruction = readFileSync(join(SAMPLES, sample, 'instruction.md'), 'utf8')
  const toml = readFileSync(join(SAMPLES, sample, 'task.toml'), 'utf8')
  for (let n = 0; n < tasks; n++) {
    const name = `${sample}-${String(n).padStart(2, '0')}`
    const folder = join(registry, CHAOS.datasetOrg, CHAOS.dataset, name)
    mkdirSync(folder, { recursive: true })
    cpSync(join(SAMPLES, sample), folder, { recursive: true })
    writeFileSync(join(folder, 'instruction.md'), `${instruction}\n(${n})\n`)
    const named = toml.replace(/^name = .*$/m, `name = "${CHAOS.datasetOrg}/${name}"`)
    const memory = memoryMb === undefined ? '' : `\nmemory_mb = ${memoryMb}`
    writeFileSync(join(folder, 'task.toml'), named.replace(/^\[environment\]$/m, `$&${memory}`))
  }
}
