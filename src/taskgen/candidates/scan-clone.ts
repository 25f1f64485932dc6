import { createHash } from 'node:crypto'
import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { openClone } from '../../repos/mirror/local-clone.ts'
import { listGitHistory } from '../../repos/pull-requests/git-history.ts'
import type { PullRequests } from '../../repos/pull-requests/pull-request.ts'
import { type Candidate, type Funnel, newFunnelCounter, toCandidate } from './funnel.ts'
import { scan } from './scan.ts'
import { openVerdictCache, type VerdictCache } from './verdict-cache.ts'

export type CloneScan = {
  branch: string
  tip: string | null
  isShallow: boolean
  commits: number
  funnel: Funnel
  candidates: Candidate[]
  /** Verdicts were cached for the next scan. */
  isCached: boolean
}

type ScanOptions = {
  signal: AbortSignal
  now: Date
  branch?: string | undefined
  /** Maximum number of pull requests, newest first. */
  limit?: number | undefined
  /** Folder of the verdict cache. Omitted: no cache. */
  cacheFolder?: string | undefined
  onProgress?: (progress: { commits: number; pullRequests: number }) => void
}

/** Scans the pull requests of a local clone. Reads git objects only: no network, no code execution. */
export async function scanClone(folder: string, options: ScanOptions): Promise<CloneScan> {
  const { signal, now, branch, cacheFolder, limit = Number.POSITIVE_INFINITY, onProgress = () => {} } = options
  await using clone = await openClone(folder, { signal, branch })
  const verdicts =
    cacheFolder === undefined ? undefined : await openVerdictCache(await toCacheFile(cacheFolder, folder))
  const counter = newFunnelCounter()
  const candidates: Candidate[] = []
  const progress = { commits: 0, pullRequests: 0 }
  const onCommit = () => {
    progress.commits += 1
  }
  const history = listGitHistory(clone, { onCommit })
  const deps = {
    location: clone.location,
    pullRequests: limitPullRequests(history, limit),
    verdicts: verdicts ?? new Map(),
  }
  for await (const screened of scan(deps, { now, defaultBranch: clone.branch }, signal)) {
    counter.add(screened)
    const candidate = toCandidate(screened)
    if (candidate) candidates.push(candidate)
    progress.pullRequests += 1
    onProgress(progress)
  }
  return {
    branch: clone.branch,
    tip: clone.tip ?? null,
    isShallow: clone.isShallow,
    commits: progress.commits,
    funnel: counter.funnel(),
    candidates,
    isCached: await saveVerdicts(verdicts),
  }
}

const limitPullRequests = ({ list }: PullRequests, limit: number): PullRequests => ({
  async *list(signal) {
    let count = 0
    for await (const pullRequest of list(signal)) {
      if (count === limit) return
      count += 1
      yield pullRequest
    }
  },
})

/** Saves the cache. A full or read-only disk makes the next scan slower, but does not fail this one. */
async function saveVerdicts(verdicts: VerdictCache | undefined): Promise<boolean> {
  if (!verdicts) return false
  return verdicts.save().then(
    () => true,
    () => false,
  )
}

async function toCacheFile(cacheFolder: string, clone: string): Promise<string> {
  const name = createHash('sha256')
    .update(await realpath(clone))
    .digest('hex')
  return join(cacheFolder, 'scan', `${name.slice(0, 32)}.jsonl`)
}
