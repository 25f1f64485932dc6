/** Jobs that are alike in all that admission asks about. Of one lane the oldest goes first. */
export type Lane = {
  lane: string
  priority: number
  fairGroup: string
  limitKeys: readonly string[]
  memoryMb: number
  /** Where its oldest jobs stand among those of all lanes, by age. */
  places: readonly number[]
}

/** What waits and what runs, over all workers. */
export type Queue = {
  lanes: readonly Lane[]
  running: readonly { fairGroup: string; limitKeys: readonly string[]; jobs: number }[]
  limits: readonly { key: string; slots: number }[]
  /** When groups were last served. One that is missing never was. */
  turns: readonly { fairGroup: string; served: number }[]
  /** What the jobs of this host take, in whichever of its workers they run. */
  memoryMbTaken: number
}

/** What a worker has to give: slots, and to jobs that weigh something also starts and its host's memory. */
export type Room = { slots: number; starts: number; memoryMb: number }

/** How many jobs to take of which lanes, and the groups that were served by that, the last one last. */
export type Admitted = { lanes: Map<string, number>; served: string[] }

type Group = { name: string; running: number; served: number }
type Candidate = Lane & { taken: number; outer: Group; inner: Group }
type Left = Room & { limits: Map<string, number>; hostMemoryMb: number; turn: number; held: boolean }

/**
 * Fills the room in turns. The next start is for the highest priority; of those, for the group that has the fewest
 * running, and of equals for the one served longest ago: first among outer groups, then among its inner ones. Within a
 * group the oldest goes first. Others may pass the first job that does not fit, but not by taking what it waits for.
 */
export function admit(queue: Queue, room: Room): Admitted {
  const left = leftAtFirst(queue, room)
  const all = candidates(queue)
  const open = new Set(all)
  for (let next = first(open); next && left.slots > 0; next = first(open)) {
    const fitting = fits(next, left)
    if (fitting) take(next, left)
    else hold(next, left)
    // What is left only shrinks: of a lane that does not fit nothing will.
    if (!fitting || next.taken === next.places.length) open.delete(next)
  }
  return admitted(all.filter((candidate) => candidate.taken > 0))
}

function leftAtFirst({ limits, running, turns, memoryMbTaken }: Queue, room: Room): Left {
  const slots = new Map(limits.map((limit) => [limit.key, limit.slots]))
  for (const { limitKeys, jobs } of running) lower(slots, limitKeys, jobs)
  return {
    ...room,
    memoryMb: room.memoryMb - memoryMbTaken,
    hostMemoryMb: room.memoryMb,
    limits: slots,
    turn: Math.max(0, ...turns.map((turn) => turn.served)),
    held: false,
  }
}

function candidates({ lanes, running, limits, turns }: Queue): Candidate[] {
  const groups = new Map<string, Group>()
  const group = (name: string): Group => {
    const found = groups.get(name) ?? { name, running: 0, served: 0 }
    groups.set(name, found)
    return found
  }
  for (const { fairGroup, served } of turns) group(fairGroup).served = served
  for (const { fairGroup, jobs } of running) {
    for (const name of [outerOf(fairGroup), fairGroup]) group(name).running += jobs
  }
  const paused = new Set(limits.filter((limit) => limit.slots === 0).map((limit) => limit.key))
  return lanes
    .filter((lane) => lane.places.length > 0 && !lane.limitKeys.some((key) => paused.has(key)))
    .map((lane) => ({ ...lane, taken: 0, outer: group(outerOf(lane.fairGroup)), inner: group(lane.fairGroup) }))
}

/** Has no slash, and a whole fair group has one: the two never share a name. */
const outerOf = (fairGroup: string): string => fairGroup.slice(0, fairGroup.indexOf('/'))

function first(open: Iterable<Candidate>): Candidate | undefined {
  let best: Candidate | undefined
  for (const candidate of open) if (!best || order(candidate, best) < 0) best = candidate
  return best
}

const order = (a: Candidate, b: Candidate): number =>
  b.priority - a.priority ||
  orderOfGroups(a.outer, b.outer) ||
  orderOfGroups(a.inner, b.inner) ||
  placeOf(a) - placeOf(b)

/** Never served, both of them: by name, so that the answer is an order. */
const orderOfGroups = (a: Group, b: Group): number =>
  a === b ? 0 : a.running - b.running || a.served - b.served || (a.name < b.name ? -1 : 1)

const placeOf = ({ places, taken }: Candidate): number => places[taken] ?? Number.POSITIVE_INFINITY

const fits = (lane: Lane, left: Left): boolean =>
  hasSlots(lane, left) && (lane.memoryMb === 0 || (left.starts > 0 && need(lane, left) <= left.memoryMb))

const hasSlots = ({ limitKeys }: Lane, { limits }: Left): boolean =>
  limitKeys.every((key) => (limits.get(key) ?? 1) > 0)

/** What weighs more than the whole host has it to itself. */
const need = ({ memoryMb }: Lane, { hostMemoryMb }: Left): number => Math.min(memoryMb, hostMemoryMb)

function take(next: Candidate, left: Left): void {
  next.taken += 1
  left.turn += 1
  for (const group of [next.outer, next.inner]) {
    group.running += 1
    group.served = left.turn
  }
  lower(left.limits, next.limitKeys, 1)
  left.slots -= 1
  if (next.memoryMb === 0) return
  left.starts -= 1
  left.memoryMb -= need(next, left)
}

/**
 * Without this, a job that needs much could wait for ever while small ones take whatever comes free. Only for the first
 * in turn, so that little lies idle; and memory only once it waits for nothing else.
 */
function hold(next: Candidate, left: Left): void {
  if (left.held) return
  left.held = true
  if (hasSlots(next, left)) left.memoryMb -= need(next, left)
  lower(left.limits, next.limitKeys, 1)
}

function lower(limits: Map<string, number>, keys: readonly string[], by: number): void {
  for (const key of keys) {
    const slots = limits.get(key)
    if (slots !== undefined) limits.set(key, slots - by)
  }
}

function admitted(taken: readonly Candidate[]): Admitted {
  const groups = new Set(taken.flatMap(({ outer, inner }) => [outer, inner]))
  return {
    lanes: new Map(taken.map((candidate) => [candidate.lane, candidate.taken])),
    served: [...groups].sort((a, b) => a.served - b.served).map((group) => group.name),
  }
}
