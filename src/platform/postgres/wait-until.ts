import { setTimeout as sleep } from 'node:timers/promises'

/** Polls until `ask` returns a value. Returns undefined after the timeout. */
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
