/** A command names something that does not exist, or leaves out a name that it needs. Reported as wrong usage. */
export class UnknownName extends Error {
  override name = 'UnknownName'
}
