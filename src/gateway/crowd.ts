/** More than a loop and the few that it starts beside itself ever need. */
const AT_ONCE_MAX = 8

type Seen = { id: string; startedAt: Date; settledAt: Date | null }

/**
 * What a grant itself was doing in the last while when one of its calls was refused for being one too many. `flooding`:
 * more at once than any loop. `alone`: nothing but this call, so that whatever it used before is long forgiven. The time
 * is told by the call that was refused: clocks of other machines differ.
 */
export function crowd(calls: readonly Seen[], refused: { id: string; elapsedMs: number }, whileMs: number) {
  const own = calls.find(({ id }) => id === refused.id)
  const since = (own?.startedAt.getTime() ?? 0) + refused.elapsedMs - whileMs
  const recent = calls.filter(({ settledAt }) => settledAt === null || settledAt.getTime() > since)
  if (mostAtOnce(recent) > AT_ONCE_MAX) return 'flooding'
  return recent.every(({ id }) => id === refused.id) ? 'alone' : 'busy'
}

/** Each call is one more when it begins and one less when it ends; of a moment the ends come first. */
function mostAtOnce(calls: readonly Seen[]): number {
  const changes = calls
    .flatMap(({ startedAt, settledAt }) => [
      { at: startedAt.getTime(), by: 1 },
      ...(settledAt ? [{ at: settledAt.getTime(), by: -1 }] : []),
    ])
    .sort((one, other) => one.at - other.at || one.by - other.by)
  let [now, most] = [0, 0]
  for (const { by } of changes) {
    now += by
    most = Math.max(most, now)
  }
  return most
}
