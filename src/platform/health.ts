/** Result of a health check, with the way to fix a failure. */
export type CheckResult = { name: string; ok: boolean; detail: string; fix: string | null }

export type SystemCheck = { name: string; fix: string; run: () => Promise<string> }

/** Runs all checks concurrently. One that throws has failed; the others still run. */
export const runChecks = (checks: SystemCheck[]): Promise<CheckResult[]> =>
  Promise.all(
    checks.map(async ({ name, fix, run }) => {
      try {
        return { name, ok: true, detail: await run(), fix: null }
      } catch (error) {
        return { name, ok: false, detail: error instanceof Error ? error.message : String(error), fix }
      }
    }),
  )
