import { open as openDescriptor } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { promisify } from 'node:util'

const CLOSED_ON_EXEC = 0o2000000
let strays: Promise<(number | 'ignore')[]> | undefined

/**
 * Returns `stdio` entries from the fourth on that hide inherited descriptors from child processes, including sandboxes.
 * Node cannot close them, but it can replace them with nothing.
 */
export function strayDescriptors(): Promise<(number | 'ignore')[]> {
  strays ??= findStrays()
  return strays
}

async function findStrays(): Promise<(number | 'ignore')[]> {
  const numbers = (await readdir('/proc/self/fd')).map(Number)
  const passed = await Promise.all(numbers.map(async (number) => ((await isPassedOn(number)) ? number : 0)))
  const last = Math.max(2, ...passed)
  if (last === 2) return []
  const nothing = await promisify(openDescriptor)('/dev/null', 'r', 0)
  return Array.from({ length: last - 2 }, (_, index) => (passed.includes(index + 3) ? nothing : 'ignore'))
}

async function isPassedOn(number: number): Promise<boolean> {
  const info = await readFile(`/proc/self/fdinfo/${number}`, 'utf8').catch(() => '')
  const flags = /^flags:\s+(\d+)/m.exec(info)?.[1]
  return flags !== undefined && (Number.parseInt(flags, 8) & CLOSED_ON_EXEC) === 0
}
