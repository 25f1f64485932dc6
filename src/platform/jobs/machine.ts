import { availableParallelism, totalmem } from 'node:os'

/** Of the machine, or of the container that this process is in. */
export function machineMemoryMb(): number {
  // 0 or more than there is: no container sets a limit.
  const constrained = process.constrainedMemory() || Number.POSITIVE_INFINITY
  return Math.floor(Math.min(totalmem(), constrained) / 2 ** 20)
}

export const machineCores = (): number => availableParallelism()
