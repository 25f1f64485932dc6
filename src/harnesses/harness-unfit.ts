/** It cannot be had here, or cannot do this. Nothing was spent, and it is nobody's failure at the task. */
export class HarnessUnfit extends Error {
  override name = 'HarnessUnfit'
}
