import { readdir, readFile } from 'node:fs/promises'

/** Command lines of this machine that hold a mark. Sandboxes of a daemon on this machine are seen too. */
export async function processesNaming(mark: string): Promise<string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
  return lines.filter((line) => line.includes(mark))
}
