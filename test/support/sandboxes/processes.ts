import { readdir, readFile } from 'node:fs/promises'

/** Lists command lines on this machine that contain a mark, including sandboxes of a local daemon. */
export async function processesNaming(mark: string): Promise<string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
  return lines.filter((line) => line.includes(mark))
}
