import { setTimeout as sleep } from 'node:timers/promises'

/** Polls until `poll` returns a value. Returns undefined after the timeout. */
export async function waitUntil<Answer>(
  timeoutMs: number,
  poll: () => Promise<Answer | undefined>,
  pollMs = 10,
): Promise<Answer | undefined> {
  const deadline = Date.now() + timeoutMs
  for (;;) {
    const answer = await poll()
    if (answer !== undefined || Date.now() > deadline) return answer
    await sleep(pollMs)
  }
}
