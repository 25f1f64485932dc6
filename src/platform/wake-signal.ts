export type WakeSignal = ReturnType<typeof createWakeSignal>

/** Wakes one waiting loop. A notification without a waiter is remembered for the next `wait`, so none is lost. */
export function createWakeSignal() {
  let isNotified = false
  let wake = () => {}
  return {
    notify(): void {
      isNotified = true
      wake()
    },
    /** Returns after the next notification, or after `timeoutMs`. */
    async wait(timeoutMs: number): Promise<void> {
      if (!isNotified) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, timeoutMs)
          wake = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      }
      isNotified = false
    },
  }
}
