import { statfs } from 'node:fs/promises'

/** Describes a lack of disk space. Checked here, because a server on a full disk cannot even log it. */
export async function findShortage(path: string, neededMegabytes: number): Promise<string | undefined> {
  const disk = await statfs(path)
  const freeMegabytes = Math.floor((disk.bavail * disk.bsize) / 1e6)
  if (freeMegabytes >= neededMegabytes) return undefined
  return `The disk is full: PostgreSQL needs ${neededMegabytes} MB in ${path} and ${freeMegabytes} MB are free.`
}
