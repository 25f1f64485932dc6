import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { measureBytes, type PrunedPath, type PruneOptions, readAgeMs } from '../platform/disk-usage.ts'
import { LOCK, lockMirror } from './mirror.ts'

/** Longer than any stage reads a mirror after opening it. */
const UNUSED_MS_MIN = 24 * 60 * 60 * 1000

/** Deletes mirrors that were not opened for some time. They are fetched again when they are needed. */
export async function pruneMirrors(folder: string, { olderThanMs, isDryRun }: PruneOptions): Promise<PrunedPath[]> {
  const unusedMs = Math.max(olderThanMs, UNUSED_MS_MIN)
  const pruned: PrunedPath[] = []
  for (const name of await readdir(folder).catch(() => [])) {
    const mirror = await pruneMirror(join(folder, name), unusedMs, isDryRun)
    if (mirror) pruned.push(mirror)
  }
  return pruned
}

async function pruneMirror(home: string, unusedMs: number, isDryRun: boolean): Promise<PrunedPath | undefined> {
  const isUnused = async (): Promise<boolean> => ((await readAgeMs(join(home, LOCK))) ?? 0) > unusedMs
  if (!(await isUnused())) return undefined
  await using lock = await lockMirror(join(home, LOCK), 0, new AbortController().signal)
  if (!lock || !(await isUnused())) return undefined
  // The lock file remains: a process that waits for it must not hold another file than later ones.
  const rest = (await readdir(home)).filter((entry) => !entry.startsWith(LOCK))
  if (rest.length === 0) return undefined
  const bytes = await measureBytes(home)
  if (!isDryRun) for (const entry of rest) await rm(join(home, entry), { recursive: true, force: true })
  return { path: home, bytes }
}
