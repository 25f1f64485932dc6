/** Builds the settings for the command line, so that a new version of Assay also changes existing folders. */
export function serverSettings(socketFolder: string, durable: boolean): string[] {
  const settings = { ...SMALL, ...QUIET, ...local(socketFolder), ...(durable ? {} : VOLATILE) }
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

const local = (socketFolder: string) => ({
  listen_addresses: '',
  port: 5432,
  // Quoted, because the setting is a list and a path may contain a comma.
  unix_socket_directories: `"${socketFolder.replaceAll('"', '""')}"`,
  unix_socket_permissions: '0700',
  timezone: 'UTC',
})

/** Settings for one service on one machine: few processes, little memory, no replicas. */
const SMALL = {
  max_connections: 100,
  shared_buffers: '64MB',
  io_method: 'sync',
  jit: 'off',
  autovacuum_max_workers: 2,
  autovacuum_worker_slots: 2,
  // Parallel queries need shared memory, of which containers have little.
  max_parallel_workers_per_gather: 0,
  max_parallel_maintenance_workers: 0,
  max_logical_replication_workers: 0,
  // In the data folder: leftovers of another user's killed server in /dev/shm could not be reused.
  dynamic_shared_memory_type: 'mmap',
  wal_level: 'minimal',
  max_wal_senders: 0,
  min_wal_size: '32MB',
  max_wal_size: '256MB',
}

/** Keeps statements and details, which may contain secrets, out of the log. */
const QUIET = {
  log_timezone: 'UTC',
  log_checkpoints: 'off',
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
}

/** Settings for tests: a power cut may destroy the data. */
const VOLATILE = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }
