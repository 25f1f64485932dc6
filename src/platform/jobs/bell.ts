export type Bell = ReturnType<typeof createBell>

/** A ring while nobody waits is kept for the next one who does, so no wake-up is lost between two rounds. */
export function createBell() {
  let rung = false
  let answer = () => {}
  return {
    ring(): void {
      rung = true
      answer()
    },
    async wait(atMostMs: number): Promise<void> {
      if (!rung) await ringOr(atMostMs, (resolve) => (answer = resolve))
      rung = false
    },
  }
}

function ringOr(atMostMs: number, listen: (resolve: () => void) => void): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, atMostMs)
    listen(() => {
      clearTimeout(timer)
      resolve()
    })
  })
}
