import { setTimeout as sleep } from 'node:timers/promises'

/** Asks until there is an answer; undefined when the time is over. */
export async function waitUntil<Answer>(
  timeoutMs: number,
  ask: () => Promise<Answer | undefined>,
  pollMs = 10,
): Promise<Answer | undefined> {
  const deadline = Date.now() + timeoutMs
  for (;;) {
    const answer = await ask()
    if (answer !== undefined || Date.now() > deadline) return answer
    await sleep(pollMs)
  }
}
