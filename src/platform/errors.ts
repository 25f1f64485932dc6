const LENGTH_MAX = 2_000

/** Returns the message of an error. It is never empty, and both a text column and a jsonb column accept it. */
export function errorText(thrown: unknown): string {
  // Node throws an AggregateError with an empty message when no address of a host answers; its members hold the reasons.
  if (thrown instanceof AggregateError && thrown.message === '') return errorText(thrown.errors[0])
  const text = thrown instanceof Error ? thrown.message || thrown.name : String(thrown)
  return text.replaceAll('\0', '').slice(0, LENGTH_MAX).toWellFormed()
}

/** A command names something that does not exist, or leaves out a name that it needs. Reported as wrong usage. */
export class UnknownName extends Error {
  override name = 'UnknownName'
}

/** Something outside the program failed, such as a sandbox engine or a provider. A repetition may succeed. */
export class Outage extends Error {
  override name = 'Outage'
}
