import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const SAMPLE = new URL('../../samples/tasks/greet-in-bash', import.meta.url).pathname

export const CHAOS = { org: 'local', datasetOrg: 'lab', dataset: 'chaos' }

/** Writes a registry folder with this many small, distinct tasks. */
export function writeDataset(registry: string, tasks: number): void {
  for (let n = 0; n < tasks; n++) {
    const folder = join(registry, CHAOS.datasetOrg, CHAOS.dataset, `greet-${String(n).padStart(2, '0')}`)
    mkdirSync(folder, { recursive: true })
    cpSync(SAMPLE, folder, { recursive: true })
    writeFileSync(join(folder, 'instruction.md'), `Write an executable script \`/app/greet.sh\`. It greets. (${n})\n`)
  }
}
