import { availableParallelism, totalmem } from 'node:os'

/** Memory of the machine, or of the container that this process runs in. */
export function machineMemoryMb(): number {
  // If no container sets a limit, this is 0, or more than the machine has.
  const constrained = process.constrainedMemory() || Number.POSITIVE_INFINITY
  return Math.floor(Math.min(totalmem(), constrained) / 2 ** 20)
}

export const machineCores = (): number => availableParallelism()
