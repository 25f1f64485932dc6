/**
 * Limits of a sandbox, a service or a build that declares none. Admission counts the same memory, so this is the only place
 * where these numbers are defined.
 */
export const DEFAULT_LIMITS = { cpus: 2, memoryMb: 2048, shmMb: 64, pids: 512, diskMb: 10_240 } as const

/** Limits of tasks that are generated from pull requests, and of everything that is run to generate them. */
export const GENERATED_LIMITS = { cpus: 2, memoryMb: 4096, diskMb: 10_240 } as const
