export type SystemPackageManager = 'apt-get' | 'dnf' | 'apk' | 'pacman' | 'brew'

/** A system dependency. */
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
  /** Installed only on request, because nothing uses it yet. */
  later?: true
}

const everywhere = (name: string): SystemPart['packages'] => ({
  'apt-get': [name],
  dnf: [name],
  apk: [name],
  pacman: [name],
})

export const PARTS: readonly SystemPart[] = [
  {
    name: 'git',
    use: 'the static checks; repositories',
    commands: ['git'],
    packages: { ...everywhere('git'), brew: ['git'] },
  },
  {
    name: 'postgres',
    use: 'the second run of the tests, on a PostgreSQL of the system',
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
    use: 'the S3 server of the tests',
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
    use: 'sandboxes in containers',
    commands: ['dockerd', '/usr/sbin/dockerd'],
    packages: { 'apt-get': ['docker.io'], dnf: ['moby-engine'], apk: ['docker'], pacman: ['docker'] },
  },
  {
    name: 'buildah',
    use: 'images without a daemon',
    commands: ['buildah'],
    packages: everywhere('buildah'),
  },
  {
    name: 'runc',
    use: 'sandboxes without a daemon, as containers are run',
    commands: ['runc'],
    packages: everywhere('runc'),
  },
  {
    name: 'ip',
    use: 'sandboxes without a daemon that find each other: the sidecars of a task',
    commands: ['ip'],
    packages: { 'apt-get': ['iproute2'], dnf: ['iproute'], apk: ['iproute2'], pacman: ['iproute2'] },
  },
  {
    name: 'bwrap',
    use: 'sandboxes without a daemon, the light way',
    commands: ['bwrap'],
    packages: everywhere('bubblewrap'),
  },
  {
    name: 'debootstrap',
    use: 'the base image of the tests of sandboxes',
    commands: ['debootstrap', '/usr/sbin/debootstrap'],
    packages: { 'apt-get': ['debootstrap'], dnf: ['debootstrap'], apk: ['debootstrap'], pacman: ['debootstrap'] },
  },
  {
    name: 'chromium',
    use: 'tests in a browser',
    commands: ['chromium', 'chromium-browser', 'google-chrome'],
    packages: everywhere('chromium'),
    later: true,
  },
]
