const ID = /^([0-9a-f]{8})-([0-9a-f]{4})-8000-8000-([0-9a-f]{12})$/

/** Encodes comparison and ordinal as a UUID (version 8), so that trial ids need neither a column nor an index. */
export function formatTrialId({ comparison, ordinal }: { comparison: number; ordinal: number }): string {
  const head = comparison.toString(16).padStart(12, '0')
  return `${head.slice(0, 8)}-${head.slice(8)}-8000-8000-${ordinal.toString(16).padStart(12, '0')}`
}

/** Decodes a trial id. Returns undefined for any other text. */
export function parseTrialId(id: string): { comparison: number; ordinal: number } | undefined {
  const [, head = '', middle = '', tail = ''] = ID.exec(id.toLowerCase()) ?? []
  if (tail === '') return undefined
  return { comparison: Number.parseInt(head + middle, 16), ordinal: Number.parseInt(tail, 16) }
}

/** Returns the ordinal of a trial, or undefined if the id does not belong to this comparison. */
export function findOrdinal(comparison: number, id: string): number | undefined {
  const key = parseTrialId(id)
  return key?.comparison === comparison ? key.ordinal : undefined
}
