export type SystemPackageManager = 'apt-get' | 'dnf' | 'apk' | 'pacman' | 'brew'

/** A program that Assay uses and that a package manager of the system can install. */
export type SystemPart = {
  name: string
  /** Purpose of the dependency. */
  use: string
  /** Installed if one of these commands exists. */
  commands: readonly string[]
  /** Installed if a file matches one of these patterns, because some systems install programs outside the PATH. */
  files?: readonly string[]
  /** Additional condition: this command exits with 0. */
  probe?: readonly [command: string, ...args: string[]]
  packages: Partial<Record<SystemPackageManager, readonly string[]>>
  /** Used only by the tests of Assay. Installed only on request. */
  isForTests?: true
}

/** Returns packages that have the same name for all package managers of Linux. */
const toLinuxPackages = (name: string): SystemPart['packages'] => ({
  'apt-get': [name],
  dnf: [name],
  apk: [name],
  pacman: [name],
})

export const SYSTEM_PARTS: readonly SystemPart[] = [
  {
    name: 'git',
    use: 'repositories',
    commands: ['git'],
    packages: { ...toLinuxPackages('git'), brew: ['git'] },
  },
  {
    name: 'postgres',
    use: 'tests on a system PostgreSQL',
    isForTests: true,
    commands: ['postgres'],
    files: ['/usr/lib/postgresql/*/bin/postgres', '/usr/libexec/postgresql*/postgres'],
    packages: {
      'apt-get': ['postgresql'],
      dnf: ['postgresql-server'],
      apk: ['postgresql'],
      pacman: ['postgresql'],
      brew: ['postgresql'],
    },
  },
  {
    name: 'python',
    use: 'tests with an S3 server',
    isForTests: true,
    commands: ['python3'],
    probe: ['python3', '-c', 'import ensurepip, venv'],
    packages: {
      'apt-get': ['python3', 'python3-venv'],
      dnf: ['python3'],
      apk: ['python3'],
      pacman: ['python'],
      brew: ['python'],
    },
  },
  {
    name: 'docker',
    use: 'sandboxes as containers',
    commands: ['dockerd', '/usr/sbin/dockerd'],
    packages: { 'apt-get': ['docker.io'], dnf: ['moby-engine'], apk: ['docker'], pacman: ['docker'] },
  },
  {
    name: 'buildah',
    use: 'images for sandboxes without a daemon',
    commands: ['buildah'],
    packages: toLinuxPackages('buildah'),
  },
  {
    name: 'runc',
    use: 'sandboxes without a daemon',
    commands: ['runc'],
    packages: toLinuxPackages('runc'),
  },
  {
    name: 'ip',
    use: 'sandboxes without a daemon: tasks with several services',
    commands: ['ip'],
    packages: { 'apt-get': ['iproute2'], dnf: ['iproute'], apk: ['iproute2'], pacman: ['iproute2'] },
  },
  {
    name: 'bwrap',
    use: 'sandboxes without a daemon, the fastest to start',
    commands: ['bwrap'],
    packages: toLinuxPackages('bubblewrap'),
  },
  {
    name: 'debootstrap',
    use: 'tests of sandboxes: the base image',
    isForTests: true,
    commands: ['debootstrap', '/usr/sbin/debootstrap'],
    packages: { 'apt-get': ['debootstrap'], dnf: ['debootstrap'], apk: ['debootstrap'], pacman: ['debootstrap'] },
  },
  {
    name: 'docker-registry',
    use: 'tests of images in a registry',
    isForTests: true,
    commands: ['docker-registry'],
    packages: { 'apt-get': ['docker-registry'], apk: ['docker-registry'] },
  },
  {
    name: 'chromium',
    use: 'tests in a browser',
    commands: ['chromium', 'chromium-browser', 'google-chrome'],
    packages: toLinuxPackages('chromium'),
    isForTests: true,
  },
]
