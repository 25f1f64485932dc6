/** A harness that is not available on this machine or does not support the task. Thrown before anything is spent. */
export class HarnessUnfit extends Error {
  override name = 'HarnessUnfit'
}
