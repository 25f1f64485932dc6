const KIB = 1024
const MIB = 1024 * KIB
const GIB = 1024 * MIB

// Larger than any real task needs, and small enough to be parsed quickly.
export const TOML_BYTES_MAX = 256 * KIB
export const COMPOSE_BYTES_MAX = 64 * KIB
export const DOCKERFILE_BYTES_MAX = 64 * KIB
export const IGNORE_BYTES_MAX = 64 * KIB
export const INSTRUCTION_BYTES_MAX = 1 * MIB
export const REWARD_BYTES_MAX = 64 * KIB

/** Maximum nesting of tables and lists. */
export const NESTING_MAX = 32

export const FILES_MAX = 50_000
export const FILE_BYTES_MAX = 500 * MIB
export const TASK_BYTES_MAX = 1 * GIB

export const PATH_BYTES_MAX = 1024
export const PATH_PART_BYTES_MAX = 255
export const PATH_DEPTH_MAX = 32

/**
 * Limits of a sandbox, a service or a build that declares none. Admission counts the same memory, so this is the only place
 * where these numbers are defined.
 */
export const DEFAULT_LIMITS = { cpus: 2, memoryMb: 2048, shmMb: 64, pids: 512, diskMb: 10_240 } as const

/** Limits of tasks that are generated from pull requests, and of everything that is run to generate them. */
export const GENERATED_LIMITS = { cpus: 2, memoryMb: 4096, diskMb: 10_240 } as const
