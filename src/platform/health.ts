/** One line of the doctor: what was checked, how it stands, and how to mend it. */
export type Finding = { name: string; ok: boolean; detail: string; fix: string | null }

export type Check = { name: string; fix: string; run: () => Promise<string> }

/** Runs every check, each on its own: one that throws is a finding, not the end. */
export const examine = (checks: Check[]): Promise<Finding[]> =>
  Promise.all(
    checks.map(async ({ name, fix, run }) => {
      try {
        return { name, ok: true, detail: await run(), fix: null }
      } catch (error) {
        return { name, ok: false, detail: error instanceof Error ? error.message : String(error), fix }
      }
    }),
  )
