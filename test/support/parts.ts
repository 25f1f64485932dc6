import { accessSync, constants, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Parts of the machine that some suites need. Missing ones are named; required ones fail the run. */
type Part = { name: string; setup: string; find: () => string | undefined; without: string }

export const PARTS: Part[] = [
  {
    name: 'postgres',
    setup: 'postgres',
    find: postgresFolder,
    without: 'the suite does not run a second time on a PostgreSQL of the system',
  },
  { name: 's3', setup: 'python', find: () => onPath('python3'), without: 'blobs are not proven against an S3 server' },
]

export const requiredParts = (): string[] => (process.env.ASSAY_REQUIRE ?? '').split(',').filter((name) => name !== '')

/** Where the programs of the newest PostgreSQL of the system lie. */
export function postgresFolder(): string | undefined {
  const debian = '/usr/lib/postgresql'
  const versions = list(debian).sort((a, b) => Number(b) - Number(a))
  return versions.map((version) => join(debian, version, 'bin')).find((folder) => list(folder).includes('postgres'))
}

function onPath(program: string): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter)
  return folders.map((folder) => join(folder, program)).find(isExecutable)
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
