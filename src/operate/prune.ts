import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { measureSweptArtifacts, sweepArtifacts } from '../comparisons/trials/artifacts.ts'
import type { Config } from '../config.ts'
import { countSweptBodies, sweepCallBodies } from '../gateway/call-bodies.ts'
import { openBlobs } from '../platform/blobs/blobs.ts'
import { type PrunedPath, type PruneOptions, readAgeMs } from '../platform/data-folder.ts'
import type { Log } from '../platform/log.ts'
import { pruneMirrors } from '../repos/mirror.ts'
import { pruneLocalImages } from '../sandboxes/local/image-store.ts'
import { pruneDockerImages } from '../sandboxes/sandboxes.ts'
import { withExistingData } from './operate.ts'

/** Number and size of the deleted items of a kind. The size of call bodies is not known. */
type PruneCount = { kind: PruneKind; count: number; bytes: number | null }
type PruneKind = 'artifacts' | 'call bodies' | 'mirrors' | 'scans' | 'image layers' | 'Docker images'

const DAY_MS = 24 * 60 * 60 * 1000

type PruneRequest = {
  /** Replaces the periods of the settings. */
  days?: number | undefined
  isDryRun: boolean
}

/** Deletes what the retention periods allow: stored files of trials, and this machine's caches. Idempotent. */
export async function prune(config: Config, log: Log, { days, isDryRun }: PruneRequest): Promise<PruneCount[]> {
  const stored = await withExistingData(config, log, async (db) => {
    const blobs = openBlobs(config.blobs, join(config.dataFolder, 'spool'))
    const artifactDays = days ?? config.artifactDays
    const artifacts = await measureSweptArtifacts(db, artifactDays)
    const bodies = await countSweptBodies(db, artifactDays)
    if (!isDryRun) {
      let swept: number
      do swept = await sweepArtifacts({ db, blobs }, artifactDays)
      while (swept > 0)
      await sweepCallBodies({ db, blobs }, artifactDays)
    }
    return [
      { kind: 'artifacts', count: artifacts.count, bytes: artifacts.bytes },
      { kind: 'call bodies', count: bodies, bytes: null },
    ] satisfies PruneCount[]
  })
  return [...stored, ...(await pruneCaches(config, log, { days, isDryRun }))]
}

/** Deletes unused caches in the data folder of this machine. All of them are made again when they are needed. */
async function pruneCaches(config: Config, log: Log, { days, isDryRun }: PruneRequest): Promise<PruneCount[]> {
  const { dataFolder, cacheDays } = config
  const options: PruneOptions = { olderThanMs: (days ?? cacheDays) * DAY_MS, isDryRun }
  return [
    toCount('mirrors', await pruneMirrors(join(dataFolder, 'mirrors'), options)),
    toCount('scans', await pruneScans(join(dataFolder, 'scans'), options)),
    toCount('image layers', await pruneLocalImages(dataFolder, options)),
    toCount('Docker images', await pruneDockerImages(config, options).catch(warnOfEngine(log))),
  ]
}

/** A Docker engine that cannot be reached keeps its images until the next run. */
const warnOfEngine =
  (log: Log) =>
  (error: unknown): PrunedPath[] => {
    log.warn({ error: String(error) }, 'could not remove unused images of the Docker engine')
    return []
  }

const toCount = (kind: PruneKind, paths: readonly PrunedPath[]): PruneCount => ({
  kind,
  count: paths.length,
  bytes: paths.reduce((sum, { bytes }) => sum + bytes, 0),
})

async function pruneScans(folder: string, { olderThanMs, isDryRun }: PruneOptions): Promise<PrunedPath[]> {
  const pruned: PrunedPath[] = []
  for (const name of await readdir(folder).catch(() => [])) {
    const path = join(folder, name)
    if (((await readAgeMs(path)) ?? 0) <= olderThanMs) continue
    pruned.push({ path, bytes: (await stat(path)).size })
    if (!isDryRun) await rm(path, { recursive: true, force: true })
  }
  return pruned
}

const INTERVAL_MS = 60 * 60 * 1000

/** Prunes the caches of this machine every hour. Stored files are pruned by a job, once for all machines. */
export function startPruning(config: Config, log: Log): () => Promise<void> {
  let running: Promise<void> = Promise.resolve()
  const run = async (): Promise<void> => {
    try {
      const deleted = (await pruneCaches(config, log, { isDryRun: false })).filter(({ count }) => count > 0)
      if (deleted.length > 0) log.info({ deleted }, 'deleted unused caches')
    } catch (error) {
      log.warn({ error }, 'failed to delete unused caches')
    }
  }
  const timer = setInterval(() => {
    running = running.then(run)
  }, INTERVAL_MS)
  timer.unref()
  return async () => {
    clearInterval(timer)
    await running
  }
}
