const LENGTH_MAX = 2_000

/** Returns the message of an error. It is never empty, and both a text column and a jsonb column accept it. */
export function errorText(thrown: unknown): string {
  // Node throws an AggregateError with an empty message when no address of a host answers; its members hold the reasons.
  if (thrown instanceof AggregateError && thrown.message === '') return errorText(thrown.errors[0])
  const text = thrown instanceof Error ? thrown.message || thrown.name : String(thrown)
  return text.replaceAll('\0', '').slice(0, LENGTH_MAX).toWellFormed()
}
