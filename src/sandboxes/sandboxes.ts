import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { shareSuccess } from '../platform/concurrency.ts'
import type { PrunedPath, PruneOptions } from '../platform/data-folder.ts'
import { hasCode } from '../platform/errors.ts'
import type { Log } from '../platform/log.ts'
import type { AllowedHost } from '../platform/outbound/url-rules.ts'
import { pruneBuiltImages } from './docker/built-images.ts'
import { connectDocker } from './docker/client.ts'
import { parseDockerHost, parseEngineCredential } from './docker/connection.ts'
import { createDockerProvider, dockerFolder } from './docker.ts'
import { type OpenedSettings, openSettings } from './kubernetes/connection.ts'
import { createKubernetesProvider } from './kubernetes.ts'
import { createLocalProvider } from './local.ts'
import { type Capabilities, type SandboxProvider, SandboxUnavailable } from './sandbox.ts'

const INSTALLATION_FILE = 'installation'

/**
 * Returns the id that distinguishes this installation from others that share an engine. The id is created once per data
 * folder and stored there.
 */
function readInstallationId(dataFolder: string): string {
  const path = join(dataFolder, INSTALLATION_FILE)
  mkdirSync(dataFolder, { recursive: true })
  try {
    writeFileSync(path, randomBytes(6).toString('hex'), { flag: 'wx' })
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
  }
  return readFileSync(path, 'utf8').trim()
}

type ProviderOptions = {
  dataFolder: string
  allowHostBase: boolean
  /** Same format as DOCKER_HOST. Defaults to the usual socket. */
  dockerHost?: string | undefined
  /** Folder with ca.pem, cert.pem and key.pem for the engine at `dockerHost`, if it is behind TLS. */
  dockerCertificates?: string | undefined
  /** Path of the settings of the provider `kubernetes`. */
  kubernetesSettings?: string | undefined
  /** Address and certificates of a stored credential. They replace the engine at `dockerHost`. */
  secret?: Partial<Record<string, string>> | undefined
  /** Hosts that builds may reach besides public ones. */
  buildHosts?: readonly AllowedHost[]
  /** Maximum size of the images of a sandbox provider. Default: no limit. */
  imageDiskBytes?: number | undefined
  /** Receives a sentence about the provider that `auto` selected, and why preferred ones were not selected. */
  onSelected?: ((note: string) => void) | undefined
  log: Log
}

type CreateProvider = (options: ProviderOptions) => SandboxProvider

const PROVIDERS: Record<string, CreateProvider> = {
  auto: createAutoProvider,
  docker: (options) =>
    createDockerProvider({
      connection: () => openDockerConnection(options),
      installation: readInstallationId(options.dataFolder),
      dataFolder: options.dataFolder,
      buildHosts: options.buildHosts ?? [],
      imageDiskBytes: options.imageDiskBytes,
      log: options.log,
    }),
  kubernetes: (options) =>
    createKubernetesProvider({
      open: () => openKubernetesSettings(options),
      installation: readInstallationId(options.dataFolder),
      dataFolder: options.dataFolder,
      buildHosts: options.buildHosts,
      log: options.log,
    }),
  local: (options) => createLocalProvider({ ...options, runtime: 'auto' }),
  'local-bwrap': (options) => createLocalProvider({ ...options, runtime: 'bwrap' }),
  'local-runc': (options) => createLocalProvider({ ...options, runtime: 'runc' }),
}

async function openKubernetesSettings({ kubernetesSettings }: ProviderOptions): Promise<OpenedSettings> {
  if (kubernetesSettings !== undefined) return openSettings(kubernetesSettings)
  throw new SandboxUnavailable('No Kubernetes cluster is configured. Set ASSAY_KUBERNETES to the path of its settings.')
}

async function openDockerConnection({
  dockerHost,
  dockerCertificates,
  secret,
}: Pick<ProviderOptions, 'dockerHost' | 'dockerCertificates' | 'secret'>) {
  if (secret?.host !== undefined) return parseEngineCredential(secret)
  if (dockerCertificates === undefined) return parseDockerHost(dockerHost)
  const read = (file: string) =>
    readFile(join(dockerCertificates, file), 'utf8').catch(() => {
      throw new SandboxUnavailable(`${file} cannot be read in ${dockerCertificates}. Check DOCKER_CERT_PATH.`)
    })
  // Sequential reads make the error name the first missing file.
  const certificates = { ca: await read('ca.pem'), cert: await read('cert.pem'), key: await read('key.pem') }
  return parseDockerHost(dockerHost, certificates)
}

type DockerAddress = Pick<ProviderOptions, 'dataFolder' | 'dockerHost' | 'dockerCertificates'>

/** Removes images that were built in this machine's Docker engine and not used for some time. */
export const pruneDockerImages = (options: DockerAddress, prune: PruneOptions): Promise<PrunedPath[]> =>
  pruneBuiltImages(
    dockerFolder(options.dataFolder),
    async () => connectDocker(await openDockerConnection(options)),
    prune,
  )

/** Order in which `auto` tries providers: the strongest isolation first. */
const PREFERRED = ['docker', 'local-runc', 'local-bwrap']

export const providerNames: string[] = Object.keys(PROVIDERS)

export const findProvider = (name: string, options: ProviderOptions): SandboxProvider | undefined =>
  PROVIDERS[name]?.(options)

export type SandboxProviders = {
  /** Providers of this machine, by name. */
  own: ReadonlyMap<string, SandboxProvider>
  /** Returns the provider for a sandbox and the secret of its credential, which may name another engine. */
  find(sandbox: string, secret?: Partial<Record<string, string>>): SandboxProvider | undefined
}

/** Number of engines of stored credentials that a process keeps open. */
const CREDENTIAL_PROVIDERS_MAX = 32

/**
 * Opens the providers of a process: one per name and, for stored credentials, one per engine. Providers are kept, so that
 * each image is built once.
 */
export function openSandboxProviders(names: readonly string[], options: ProviderOptions): SandboxProviders {
  const own = new Map(
    names.flatMap((name) => {
      const provider = findProvider(name, options)
      return provider ? [[name, provider] as const] : []
    }),
  )
  const credentialProviders = new Map<string, SandboxProvider>()
  return {
    own,
    find(sandbox, secret = {}) {
      const ownProvider = own.get(sandbox)
      if (secret.host === undefined || ownProvider === undefined) return ownProvider
      const key = JSON.stringify([sandbox, secret.host, secret.ca, secret.cert, secret.key])
      const provider = credentialProviders.get(key) ?? findProvider(sandbox, { ...options, secret })
      if (provider === undefined) return undefined
      // Moves the provider to the end, so that the least recently used ones are dropped.
      credentialProviders.delete(key)
      credentialProviders.set(key, provider)
      for (const oldest of [...credentialProviders.keys()].slice(0, -CREDENTIAL_PROVIDERS_MAX))
        credentialProviders.delete(oldest)
      return provider
    },
  }
}

type ProviderSelection = {
  name: string
  provider: SandboxProvider
  capabilities: Capabilities
  /** Preferred providers that do not work here, with the reasons. */
  rejected: { name: string; reason: string }[]
}

/** Returns the first provider that passes its self-test. Throws SandboxUnavailable if none does. */
export async function chooseProvider(options: ProviderOptions, names = PREFERRED): Promise<ProviderSelection> {
  const rejected: ProviderSelection['rejected'] = []
  for (const name of names) {
    const provider = findProvider(name, options)
    if (provider === undefined) continue
    try {
      return { name, provider, capabilities: await provider.selfTest(), rejected }
    } catch (error) {
      if (!(error instanceof SandboxUnavailable)) throw error
      rejected.push({ name, reason: error.message })
    }
  }
  const reasons = rejected.map(({ name, reason }) => `${name}: ${reason}`)
  throw new SandboxUnavailable(`No sandbox works on this machine.\n${reasons.join('\n')}`)
}

/** Describes the selection, one provider per line. */
export const describeSelection = ({ name, capabilities, rejected }: ProviderSelection): string =>
  [
    `Sandboxes are run by ${name} (${capabilities.isolation}).`,
    ...rejected.map((other) => `Not by ${other.name}: ${other.reason}`),
  ].join('\n')

/** Creates a provider that selects another one on first use and then keeps it. */
function createAutoProvider(options: ProviderOptions): SandboxProvider {
  const choose = shareSuccess(async () => {
    const selection = await chooseProvider(options)
    options.log.info({ chosen: selection.name, passedOver: selection.rejected }, 'sandbox chosen')
    options.onSelected?.(describeSelection(selection))
    return selection.provider
  })
  return {
    name: 'auto',
    selfTest: async () => (await choose()).selfTest(),
    prepare: async (source, prepareOptions) => (await choose()).prepare(source, prepareOptions),
    discard: async (image) => (await choose()).discard(image),
    openNetwork: async (id) => (await choose()).openNetwork(id),
    start: async (spec) => (await choose()).start(spec),
    adopt: async (spec) => (await choose()).adopt?.(spec),
    reap: async (adoptableIds) => (await choose()).reap(adoptableIds),
  }
}
