const ID = /^([0-9a-f]{8})-([0-9a-f]{4})-8000-8000-([0-9a-f]{12})$/

/** A UUID (version 8) that says where the trial is, so that no row has to hold it and no index to find it. */
export function trialId({ comparison, ordinal }: { comparison: number; ordinal: number }): string {
  const head = comparison.toString(16).padStart(12, '0')
  return `${head.slice(0, 8)}-${head.slice(8)}-8000-8000-${ordinal.toString(16).padStart(12, '0')}`
}

/** Undefined: it is the id of no trial. */
export function keyOf(id: string): { comparison: number; ordinal: number } | undefined {
  const [, head = '', middle = '', tail = ''] = ID.exec(id.toLowerCase()) ?? []
  if (tail === '') return undefined
  return { comparison: Number.parseInt(head + middle, 16), ordinal: Number.parseInt(tail, 16) }
}

/** The ordinal of a trial of this comparison. Undefined: the id is of another, or of none. */
export function ordinalIn(comparison: number, id: string): number | undefined {
  const key = keyOf(id)
  return key?.comparison === comparison ? key.ordinal : undefined
}
