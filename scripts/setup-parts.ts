export type Manager = 'apt-get' | 'dnf' | 'apk' | 'pacman' | 'brew'

/** A part of the system that some work needs. */
export type Part = {
  name: string
  /** Who needs it. */
  use: string
  /** It is there when one of these commands is. */
  commands: readonly string[]
  /** Or when one of these patterns matches a file: some systems keep programs out of the search path. */
  files?: readonly string[]
  /** And when this command ends well. */
  probe?: readonly [command: string, ...args: string[]]
  packages: Partial<Record<Manager, readonly string[]>>
  /** Nothing uses it yet. It is installed only by name. */
  later?: true
}

const everywhere = (name: string): Part['packages'] => ({
  'apt-get': [name],
  dnf: [name],
  apk: [name],
  pacman: [name],
})

export const PARTS: readonly Part[] = [
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
