import { accessSync, constants, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** A system dependency of some suites. If it is missing, its suites are skipped with one line; if required, the run fails. */
type MachinePart = { name: string; setup: string; find: () => string | undefined; without: string; suites: string[] }

const IN_DOCKER = [
  'src/sandboxes/docker*.test.ts',
  'src/sandboxes/docker/connection.test.ts',
  'src/comparisons/docker-pauses.test.ts',
  'src/trials/docker-{connection,patch}.test.ts',
  'test/batches/pipeline.test.ts',
]
const IN_SANDBOXES = [
  'cli/comparisons.test.ts',
  'test/demo/**',
  'src/sandboxes/**',
  'src/trials/run-trial.test.ts',
  'src/trials/patch.test.ts',
  'cli/trial.test.ts',
  'src/batches/validator.test.ts',
  'src/grading/{grader,hostile-code,hostile-patches,processes,suite-report}.test.ts',
  'test/samples/**',
  'test/chaos/{kills,spend,two-of-each}.test.ts',
  'test/serve/{hostile-agents,sent-program}.test.ts',
  'test/gateway/canary.test.ts',
]

export const PARTS: MachinePart[] = [
  {
    name: 'postgres',
    setup: 'postgres',
    find: postgresFolder,
    without: 'the suite does not run a second time on a PostgreSQL of the system, and its database is never killed',
    suites: ['test/chaos/kills.test.ts'],
  },
  {
    name: 's3',
    setup: 'python',
    find: () => onPath('python3'),
    without: 'blobs are not proven against an S3 server',
    suites: [],
  },
  ...['bwrap', 'runc', 'ip', 'buildah', 'debootstrap'].map((name) => ({
    name,
    setup: name,
    // Mounts, cgroups and the base image require root.
    find: () => (process.getuid?.() === 0 ? onPath(name) : undefined),
    without: 'nothing is run in sandboxes',
    suites: IN_SANDBOXES,
  })),
  {
    name: 'docker',
    setup: 'docker',
    // Starts its own Docker engine with the base image, which requires root.
    find: () => (process.getuid?.() === 0 && onPath('debootstrap') ? onPath('dockerd') : undefined),
    without: 'nothing is run in containers of Docker',
    suites: IN_DOCKER,
  },
  {
    name: 'docker-registry',
    setup: 'docker-registry',
    find: () => onPath('docker-registry'),
    without: 'no image is pushed to a registry',
    suites: ['src/sandboxes/kubernetes-build.test.ts', 'src/sandboxes/kubernetes/folder-images.test.ts'],
  },
  {
    name: 'harnesses',
    setup: 'bwrap',
    // Installs the real programs from npm on first use.
    find: () => (process.getuid?.() === 0 ? onPath('npm') : undefined),
    without: 'no real program works on a task',
    suites: [],
  },
  {
    name: 'chromium',
    setup: 'chromium',
    find: findChromium,
    without: 'no page is opened in a browser',
    suites: ['test/{app,site}/**'],
  },
]

export const hasPart = (name: string): boolean => PARTS.find((part) => part.name === name)?.find() !== undefined

/** Returns true if the program is on the PATH. */
export const hasProgram = (name: string): boolean => onPath(name) !== undefined

export const isLongRun = (): boolean => Boolean(process.env.ASSAY_TEST_LONG)

/** Lists the suites that this machine cannot run. */
export const listUnsupportedSuites = (): string[] => [
  ...new Set(PARTS.filter((part) => part.find() === undefined).flatMap((part) => part.suites)),
]

export const requiredParts = (): string[] => (process.env.ASSAY_REQUIRE ?? '').split(',').filter((name) => name !== '')

/** Returns the folder of the programs of the newest system PostgreSQL. */
export function postgresFolder(): string | undefined {
  const debian = '/usr/lib/postgresql'
  const versions = list(debian).sort((a, b) => Number(b) - Number(a))
  return versions.map((version) => join(debian, version, 'bin')).find((folder) => list(folder).includes('postgres'))
}

export function findChromium(): string | undefined {
  return onPath('chromium') ?? onPath('chromium-browser') ?? onPath('google-chrome')
}

function onPath(program: string): string | undefined {
  const folders = `${process.env.PATH}${delimiter}/usr/sbin${delimiter}/sbin`.split(delimiter)
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
