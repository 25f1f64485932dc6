/** More memory than any host has. A job that declares this much runs alone on its host. */
export const ALL_MEMORY_MB = 2_147_483_647

/** Queued jobs with the same priority, fair group, limits and memory. Within a class the oldest job starts first. */
export type QueueClass = {
  id: string
  priority: number
  /** `outer/inner`. Capacity is shared between outer groups first, then between the inner groups of each. */
  fairGroup: string
  limitKeys: readonly string[]
  memoryMb: number
  /** Positions of the oldest jobs of this class when the jobs of all classes are sorted by age. */
  ranks: readonly number[]
}

/** Queued and running jobs of all workers. */
export type QueueState = {
  queueClasses: readonly QueueClass[]
  running: readonly RunningJobs[]
  limits: readonly { key: string; slots: number }[]
  /** Fair-share turns: when each group was last served. A missing group was never served. */
  turns: readonly { fairGroup: string; served: number }[]
  /** Memory taken by the running jobs of this host, in all of its workers. */
  memoryMbTaken: number
}

/** Running jobs of one fair group with the same limits. */
type RunningJobs = {
  fairGroup: string
  limitKeys: readonly string[]
  jobs: number
  /** Number of these jobs that run in the worker that claims. */
  ownJobs?: number | undefined
  /** Memory that these jobs take on the host of the worker that claims. */
  memoryMb?: number | undefined
}

/**
 * Free capacity of a worker. `starts`, `memoryMb` and `groupMemoryMb` limit only jobs that declare memory.
 * `sharedSlots` limits outer groups of which this worker runs a job already. Default: all slots.
 */
export type WorkerCapacity = {
  slots: number
  sharedSlots?: number | undefined
  starts: number
  memoryMb: number
  /** Maximum memory of one outer group on the host. No job counts as more, unless it must run alone. Default: `memoryMb`. */
  groupMemoryMb?: number | undefined
}

/** Number of jobs to start from each queue class, and the fair groups of these jobs, the most recently served last. */
export type JobAdmission = { jobCounts: Map<string, number>; served: string[] }

type FairGroup = { name: string; running: number; ownRunning: number; memoryMb: number; served: number }
type AdmissionCandidate = QueueClass & { taken: number; outer: FairGroup; inner: FairGroup }

type RemainingCapacity = WorkerCapacity & {
  sharedSlots: number
  limits: Map<string, number>
  hostMemoryMb: number
  groupMemoryMb: number
  turn: number
  hasReservation: boolean
}

/**
 * Fills the capacity in fair-share turns. The next start goes to the highest priority; among equals to the group with
 * the fewest running jobs; among equals to the group served longest ago: first between outer groups, then between the
 * inner groups of one. Within a group the oldest job starts first. Other jobs may overtake the first job that does not
 * fit, but may not use the capacity it waits for.
 */
export function admit(queue: QueueState, capacity: WorkerCapacity): JobAdmission {
  const remaining = toRemainingCapacity(queue, capacity)
  const all = listCandidates(queue)
  const pending = new Set(all)
  for (let next = findFirst(pending); next && remaining.slots > 0; next = findFirst(pending)) {
    const isFitting = mayTakeSlot(next, remaining) && fitsCapacity(next, remaining)
    if (isFitting) takeJob(next, remaining)
    else if (mayTakeSlot(next, remaining)) reserveCapacity(next, remaining)
    // Capacity only shrinks: a class that does not fit now will not fit later.
    if (!isFitting || next.taken === next.ranks.length) pending.delete(next)
  }
  return toAdmission(all.filter((candidate) => candidate.taken > 0))
}

function toRemainingCapacity(
  { limits, running, turns, memoryMbTaken }: QueueState,
  capacity: WorkerCapacity,
): RemainingCapacity {
  const slots = new Map(limits.map((limit) => [limit.key, limit.slots]))
  for (const { limitKeys, jobs } of running) lowerLimits(slots, limitKeys, jobs)
  return {
    ...capacity,
    sharedSlots: capacity.sharedSlots ?? capacity.slots,
    memoryMb: capacity.memoryMb - memoryMbTaken,
    hostMemoryMb: Math.min(capacity.memoryMb, ALL_MEMORY_MB),
    groupMemoryMb: capacity.groupMemoryMb ?? capacity.memoryMb,
    limits: slots,
    turn: Math.max(0, ...turns.map((turn) => turn.served)),
    hasReservation: false,
  }
}

function listCandidates({ queueClasses, running, limits, turns }: QueueState): AdmissionCandidate[] {
  const groups = new Map<string, FairGroup>()
  const getGroup = (name: string): FairGroup => {
    const group = groups.get(name) ?? { name, running: 0, ownRunning: 0, memoryMb: 0, served: 0 }
    groups.set(name, group)
    return group
  }
  for (const { fairGroup, served } of turns) getGroup(fairGroup).served = served
  for (const { fairGroup, jobs, ownJobs = 0, memoryMb = 0 } of running) {
    for (const group of [toOuterGroup(fairGroup), fairGroup].map(getGroup)) {
      group.running += jobs
      group.ownRunning += ownJobs
      group.memoryMb += memoryMb
    }
  }
  const paused = new Set(limits.filter((limit) => limit.slots === 0).map((limit) => limit.key))
  return queueClasses
    .filter(({ ranks, limitKeys }) => ranks.length > 0 && !limitKeys.some((key) => paused.has(key)))
    .map((queueClass) => ({
      ...queueClass,
      taken: 0,
      outer: getGroup(toOuterGroup(queueClass.fairGroup)),
      inner: getGroup(queueClass.fairGroup),
    }))
}

/** Returns the outer group. Its name has no slash and that of a fair group has one, so the two never collide. */
const toOuterGroup = (fairGroup: string): string => fairGroup.slice(0, fairGroup.indexOf('/'))

function findFirst(candidates: Iterable<AdmissionCandidate>): AdmissionCandidate | undefined {
  let best: AdmissionCandidate | undefined
  for (const candidate of candidates) if (!best || compareCandidates(candidate, best) < 0) best = candidate
  return best
}

const compareCandidates = (a: AdmissionCandidate, b: AdmissionCandidate): number =>
  b.priority - a.priority ||
  compareGroups(a.outer, b.outer) ||
  compareGroups(a.inner, b.inner) ||
  nextRank(a) - nextRank(b)

/** Falls back to the name, so that two groups that were never served have a total order. */
const compareGroups = (a: FairGroup, b: FairGroup): number =>
  a === b ? 0 : a.running - b.running || a.served - b.served || (a.name < b.name ? -1 : 1)

const nextRank = ({ ranks, taken }: AdmissionCandidate): number => ranks[taken] ?? Number.POSITIVE_INFINITY

/** The last slots are for outer groups without a running job, so that a few groups cannot take all of them. */
const mayTakeSlot = ({ outer }: AdmissionCandidate, { sharedSlots }: RemainingCapacity): boolean =>
  sharedSlots > 0 || outer.ownRunning === 0

const fitsCapacity = (candidate: AdmissionCandidate, remaining: RemainingCapacity): boolean =>
  hasSlots(candidate, remaining) &&
  (candidate.memoryMb === 0 ||
    (remaining.starts > 0 &&
      requiredMemoryMb(candidate, remaining) <= remaining.memoryMb &&
      isWithinShare(candidate, remaining)))

const hasSlots = ({ limitKeys }: QueueClass, { limits }: RemainingCapacity): boolean =>
  limitKeys.every((key) => (limits.get(key) ?? 1) > 0)

/**
 * No outer group takes more than its share of the memory, so that jobs of one group that run for hours do not stop all
 * others. A job that runs alone takes the memory of the whole host.
 */
const isWithinShare = (candidate: AdmissionCandidate, remaining: RemainingCapacity): boolean =>
  runsAlone(candidate) || candidate.outer.memoryMb + requiredMemoryMb(candidate, remaining) <= remaining.groupMemoryMb

/**
 * A job that needs more memory than its group may take counts as that much, even if it needs more than the host: otherwise a
 * task of one workspace could stop the jobs of all others by declaring too much.
 */
const requiredMemoryMb = (queueClass: QueueClass, remaining: RemainingCapacity): number =>
  runsAlone(queueClass) ? remaining.hostMemoryMb : Math.min(queueClass.memoryMb, remaining.groupMemoryMb)

const runsAlone = ({ memoryMb }: QueueClass): boolean => memoryMb >= ALL_MEMORY_MB

function takeJob(next: AdmissionCandidate, remaining: RemainingCapacity): void {
  next.taken += 1
  remaining.turn += 1
  for (const group of [next.outer, next.inner]) {
    group.running += 1
    group.ownRunning += 1
    group.served = remaining.turn
  }
  lowerLimits(remaining.limits, next.limitKeys, 1)
  remaining.slots -= 1
  remaining.sharedSlots -= 1
  if (next.memoryMb === 0) return
  const memoryMb = requiredMemoryMb(next, remaining)
  for (const group of [next.outer, next.inner]) group.memoryMb += memoryMb
  remaining.starts -= 1
  remaining.memoryMb -= memoryMb
}

/**
 * Reserves capacity for a job that does not fit yet, so that small jobs cannot starve it. Only the first such job
 * gets a reservation, so that little capacity stays idle. It reserves memory only if it does not also wait for slots,
 * and only that of its own group if the group has to end other jobs first.
 */
function reserveCapacity(next: AdmissionCandidate, remaining: RemainingCapacity): void {
  if (!isWithinShare(next, remaining)) {
    if (hasSlots(next, remaining)) next.outer.memoryMb += requiredMemoryMb(next, remaining)
    return
  }
  if (remaining.hasReservation) return
  remaining.hasReservation = true
  if (hasSlots(next, remaining)) remaining.memoryMb -= requiredMemoryMb(next, remaining)
  lowerLimits(remaining.limits, next.limitKeys, 1)
}

function lowerLimits(limits: Map<string, number>, keys: readonly string[], by: number): void {
  for (const key of keys) {
    const slots = limits.get(key)
    if (slots !== undefined) limits.set(key, slots - by)
  }
}

function toAdmission(taken: readonly AdmissionCandidate[]): JobAdmission {
  const groups = new Set(taken.flatMap(({ outer, inner }) => [outer, inner]))
  return {
    jobCounts: new Map(taken.map((candidate) => [candidate.id, candidate.taken])),
    served: [...groups].sort((a, b) => a.served - b.served).map((group) => group.name),
  }
}
