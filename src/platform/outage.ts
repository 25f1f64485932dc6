/** Something outside the program failed, such as a sandbox engine or a provider. A repetition may succeed. */
export class Outage extends Error {
  override name = 'Outage'
}
