const ID = /^([0-9a-f]{8})-([0-9a-f]{4})-8000-8000-([0-9a-f]{12})$/

/** A UUID (version 8) that says where the trial is, so that no row has to hold it and no index to find it. */
export function trialId({ comparison, ordinal }: { comparison: number; ordinal: number }): string {
  const head = comparison.toString(16).padStart(12, '0')
  return `${head.slice(0, 8)}-${head.slice(8)}-8000-8000-${ordinal.toString(16).padStart(12, '0')}`
}

/** The ordinal of a trial of this comparison. Undefined: the id is of another, or of none. */
export function ordinalIn(comparison: number, id: string): number | undefined {
  const [, head = '', middle = '', tail = ''] = ID.exec(id.toLowerCase()) ?? []
  return tail !== '' && Number.parseInt(head + middle, 16) === comparison ? Number.parseInt(tail, 16) : undefined
}
