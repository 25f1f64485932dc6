import type { PinnedServer } from '../outbound/pinned-proxy.ts'

/** A repository that a stranger wrote is read without running anything of it, and without the settings of this machine. */
const SETTINGS = [
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
  // The target of a redirect was never checked. This also turns off alternates that a server names.
  'http.followRedirects=false',
  // Other ways for a server to send git elsewhere.
  'transfer.bundleURI=false',
  'fetch.uriProtocols=',
  'promisor.acceptFromServer=none',
  'transfer.credentialsInUrl=die',
  'http.lowSpeedLimit=1000',
  'http.lowSpeedTime=30',
  // Little at a time, so that the limit on memory leaves room.
  'core.packedGitWindowSize=32m',
  'core.packedGitLimit=256m',
  'core.bigFileThreshold=16m',
]

const PROGRAMS = '/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin'

/** A header that only this server gets. It stands in no argument and in no file. */
export type SecretHeader = { url: string; header: string }

export type GitPlace = {
  /** Options that say where the repository is: `--git-dir=…` and so on. */
  where: readonly string[]
  /** Where the command starts. */
  cwd: string
  /** Where git looks for what belongs to its user. Without one: where it starts. */
  home?: string
  /** Protocols that git may speak, with colons between them. Nothing: it stays on this machine's disk. */
  protocols: string
  /** The only server that git may connect to. Without one: whichever the address names, which the operator chose. */
  pin?: PinnedServer | undefined
  secret?: SecretHeader | undefined
  /** Above this folder git looks for no repository. */
  ceiling?: string
  /** Objects that are read from elsewhere. */
  objects?: string | undefined
  /** Settings for this place alone. */
  settings?: readonly string[]
  /** Objects that a partial clone lacks are fetched when they are needed. */
  isLazy?: boolean
  memoryKib?: number
  /** Of one file that git writes. */
  fileBytesMax?: number
}

/** Builds the options in front of the command. `proxyUrl` is the proxy through which a pinned place connects. */
export const optionsOf = ({ settings = [] }: GitPlace, proxyUrl: string | undefined): string[] =>
  [...SETTINGS, ...settings, ...(proxyUrl === undefined ? [] : [`http.proxy=${proxyUrl}`])].flatMap((setting) => [
    '-c',
    setting,
  ])

/** All that git is told of this machine. */
export const environmentOf = ({
  cwd,
  home = cwd,
  protocols,
  secret,
  objects,
  ceiling,
  isLazy,
}: GitPlace): Record<string, string> => ({
  PATH: PROGRAMS,
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
  ...(secret === undefined ? {} : secretSetting(secret)),
})

const secretSetting = ({ url, header }: SecretHeader): Record<string, string> => ({
  GIT_CONFIG_COUNT: '1',
  GIT_CONFIG_KEY_0: `http.${url}.extraHeader`,
  GIT_CONFIG_VALUE_0: header,
})
