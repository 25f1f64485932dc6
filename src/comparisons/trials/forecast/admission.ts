/** Expected spend of one setting of a comparison. */
export type SettingForecast = {
  running: number
  /** Expected cost of one trial. */
  expectedMicros: number
  /** True if the expectation is the mean of finished trials, false if it is a guess from prices. */
  isMeasured: boolean
}

export type AdmissionFacts = {
  budgetMicros: number
  /** Spend of finished attempts. */
  countedMicros: number
  /** Spend of running attempts, including reservations. */
  liveMicros: number
  settings: readonly SettingForecast[]
  /** Position of the trial's setting. */
  setting: number
  /** Cost of one short call. With less, no trial can make progress. */
  floorMicros: number
}

/**
 * Decides whether a trial starts. It starts if its expected cost fits beside what the running trials are expected to
 * cost. `wait`: it may fit once they have ended. `pause`: it does not fit, and nothing is running. The cost of a setting
 * without finished trials is a guess, so one trial of it starts to measure it as long as it can make one call.
 */
export function decideAdmission(facts: AdmissionFacts): 'start' | 'wait' | 'pause' {
  const { budgetMicros, countedMicros, liveMicros, settings, setting, floorMicros } = facts
  const own = settings[setting]
  const needMicros = own?.expectedMicros ?? 0
  const runningMicros = settings.reduce((sum, { running, expectedMicros }) => sum + running * expectedMicros, 0)
  const leftMicros = budgetMicros - countedMicros - liveMicros
  const isCovered = countedMicros + Math.max(liveMicros, runningMicros) + needMicros <= budgetMicros
  if (leftMicros > 0 && isCovered) return 'start'
  if (settings.some(({ running }) => running > 0)) return 'wait'
  return leftMicros > 0 && own?.isMeasured === false && leftMicros >= floorMicros ? 'start' : 'pause'
}

const usd = (micros: number): string => `$${Number((micros / 1e6).toFixed(6))}`

/** Explains why no further trial starts. */
export function explainPause({ budgetMicros, countedMicros, liveMicros, settings, setting }: AdmissionFacts): string {
  const expected = settings[setting]?.expectedMicros ?? 0
  if (countedMicros + liveMicros >= budgetMicros)
    return `The budget of ${usd(budgetMicros)} is used up. Resume with a larger budget.`
  return `The budget of ${usd(budgetMicros)} does not cover another trial: ${usd(countedMicros + liveMicros)} is spent, and the next trial is expected to cost ${usd(expected)}. Resume with a larger budget.`
}

/** Explains why a running trial was stopped by the budget. */
export const explainCutOff = ({
  budgetMicros,
  spentMicros,
}: {
  budgetMicros: number | null
  spentMicros: number
}): string =>
  `A trial was cut off because the budget of ${usd(budgetMicros ?? 0)} did not cover its next call: it is queued again and not scored, and the ${usd(spentMicros)} that it spent counts. Resume with a larger budget.`
