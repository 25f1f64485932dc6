import type { PinnedServer } from '../outbound/pinned-connections.ts'

/** Settings that keep git from executing anything of an untrusted repository and from using this machine's settings. */
const SAFE_SETTINGS = [
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'core.protectNTFS=true',
  'core.protectHFS=true',
  'core.attributesFile=/dev/null',
  'core.autocrlf=false',
  'credential.helper=',
  'submodule.recurse=false',
  'fetch.recurseSubmodules=false',
  'gc.auto=0',
  'maintenance.auto=false',
  'protocol.version=2',
  // Redirect targets are not checked. This also disables alternates named by a server.
  'http.followRedirects=false',
  // A server could use these to make git fetch from other addresses.
  'transfer.bundleURI=false',
  'fetch.uriProtocols=',
  'promisor.acceptFromServer=none',
  'transfer.credentialsInUrl=die',
  'http.lowSpeedLimit=1000',
  'http.lowSpeedTime=30',
  // Small windows, because of the memory limit.
  'core.packedGitWindowSize=32m',
  'core.packedGitLimit=256m',
  'core.bigFileThreshold=16m',
]

const PROGRAM_PATH = '/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin'

/** A secret header for one server. It is passed in the environment, never in an argument or a file. */
export type SecretHeader = { url: string; header: string }

/** A server that git reaches by ssh. The key is passed in the environment, to an agent that ends with git. */
export type SshServer = {
  host: string
  port: number
  /** Checked address of the host. ssh connects to it without resolving the name again. */
  address: string
  key: SshKey
}

/** `knownHosts` has the format of OpenSSH's file of that name. */
export type SshKey = { privateKey: string; knownHosts: string }

export type GitLocation = {
  /** Options that locate the repository, such as `--git-dir=…`. */
  repositoryArgs: readonly string[]
  /** Working directory. */
  cwd: string
  /** Home directory. Default: `cwd`. */
  home?: string
  /** Allowed protocols, separated by colons. Empty: none, only the local disk. */
  protocols: string
  /** The only server that git may connect to. Undefined: any, for addresses that the operator chose. */
  pin?: PinnedServer | undefined
  secret?: SecretHeader | undefined
  ssh?: SshServer | undefined
  /** Folder above which git does not look for repositories. */
  ceiling?: string
  /** Object directory outside the repository. */
  objects?: string | undefined
  /** Additional settings. */
  settings?: readonly string[]
  /** Fetches objects that a partial clone lacks on demand. */
  isLazy?: boolean
  memoryKib?: number
  /** Maximum size of a file that git writes. */
  fileBytesMax?: number
}

/** Builds the options in front of the command. `proxyUrl` is the proxy through which git connects to a pinned server. */
export const buildOptions = ({ settings = [] }: GitLocation, proxyUrl: string | undefined): string[] =>
  [...SAFE_SETTINGS, ...settings, ...(proxyUrl === undefined ? [] : [`http.proxy=${proxyUrl}`])].flatMap((setting) => [
    '-c',
    setting,
  ])

/** File in the working directory of git with the host keys that ssh accepts. */
export const KNOWN_HOSTS = 'known_hosts'

const SSH_PORT = 22

/** Builds the complete environment of git. */
export const buildEnvironment = ({
  cwd,
  home = cwd,
  protocols,
  secret,
  ssh,
  objects,
  ceiling,
  isLazy,
}: GitLocation): Record<string, string> => ({
  PATH: PROGRAM_PATH,
  HOME: home,
  LC_ALL: 'C',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_ATTR_NOSYSTEM: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_ASKPASS: 'false',
  GIT_ALLOW_PROTOCOL: protocols,
  GIT_NO_REPLACE_OBJECTS: '1',
  ...(isLazy ? {} : { GIT_NO_LAZY_FETCH: '1' }),
  ...(ceiling === undefined ? {} : { GIT_CEILING_DIRECTORIES: ceiling }),
  ...(objects === undefined ? {} : { GIT_OBJECT_DIRECTORY: objects }),
  ...(secret === undefined ? {} : buildSecretSetting(secret)),
  ...(ssh === undefined ? {} : buildSshSettings(ssh)),
})

const buildSshSettings = (server: SshServer): Record<string, string> => ({
  GIT_SSH_COMMAND: buildSshCommand(server),
  GIT_SSH_VARIANT: 'ssh',
  ASSAY_SSH_KEY: server.key.privateKey.replaceAll('\r', ''),
})

/** Builds an ssh command that ignores this machine's settings and keys. ssh uses the first value of an option. */
const buildSshCommand = ({ host, port, address }: SshServer): string =>
  [
    'ssh -F none',
    'BatchMode=yes',
    `HostName=${address}`,
    `Port=${port}`,
    `HostKeyAlias=${port === SSH_PORT ? host : `[${host}]:${port}`}`,
    'StrictHostKeyChecking=yes',
    `UserKnownHostsFile=${KNOWN_HOSTS}`,
    'GlobalKnownHostsFile=none',
    'UpdateHostKeys=no',
    'IdentityFile=none',
    'PreferredAuthentications=publickey',
    'ForwardAgent=no',
    'ConnectTimeout=30',
    'ServerAliveInterval=15',
  ].join(' -o ')

const buildSecretSetting = ({ url, header }: SecretHeader): Record<string, string> => ({
  GIT_CONFIG_COUNT: '1',
  GIT_CONFIG_KEY_0: `http.${url}.extraHeader`,
  GIT_CONFIG_VALUE_0: header,
})
