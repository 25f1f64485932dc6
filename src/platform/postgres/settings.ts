/** Passed on the command line, so that a new version of Assay also changes folders that exist. */
export function serverSettings(socketFolder: string, durable: boolean): string[] {
  const settings = { ...SMALL, ...QUIET, ...local(socketFolder), ...(durable ? {} : VOLATILE) }
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

const local = (socketFolder: string) => ({
  listen_addresses: '',
  port: 5432,
  // Quoted, because the setting is a list and a path may hold a comma.
  unix_socket_directories: `"${socketFolder.replaceAll('"', '""')}"`,
  unix_socket_permissions: '0700',
  timezone: 'UTC',
})

/** For one service on one machine: few processes, little memory, no replicas. */
const SMALL = {
  max_connections: 100,
  shared_buffers: '64MB',
  io_method: 'sync',
  jit: 'off',
  autovacuum_max_workers: 2,
  autovacuum_worker_slots: 2,
  // Parallel queries take shared memory that containers have little of.
  max_parallel_workers_per_gather: 0,
  max_parallel_maintenance_workers: 0,
  max_logical_replication_workers: 0,
  // In the data folder: what a killed server of another user left in /dev/shm could not be taken over.
  dynamic_shared_memory_type: 'mmap',
  wal_level: 'minimal',
  max_wal_senders: 0,
  min_wal_size: '32MB',
  max_wal_size: '256MB',
}

/** Statements and details may hold secrets, and the log is kept. */
const QUIET = {
  log_timezone: 'UTC',
  log_checkpoints: 'off',
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
}

/** A power cut may destroy the data: for tests. */
const VOLATILE = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }
