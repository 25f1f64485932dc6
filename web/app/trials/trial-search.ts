const TABS = ['trajectory', 'diff', 'verifier', 'logs', 'recording', 'calls', 'files'] as const
export type TrialTab = (typeof TABS)[number]

/** Search parameters of a trial page: a tab, and a step of the trajectory. */
type TrialSearch = { tab?: TrialTab | undefined; step?: number | undefined }

/** Parses the search parameters. Invalid values count as absent. */
export const parseTrialSearch = ({ tab, step }: Record<string, unknown>): TrialSearch => ({
  tab: TABS.find((each) => each === tab),
  step: Number.isSafeInteger(step) && Number(step) > 0 ? Number(step) : undefined,
})
