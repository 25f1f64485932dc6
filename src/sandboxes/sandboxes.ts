import type { Log } from '../platform/log.ts'
import { connectionFrom } from './docker/connection.ts'
import { createDockerProvider } from './docker.ts'
import type { Place } from './egress/rules.ts'
import { installationOf } from './installation.ts'
import { createLocalProvider } from './local.ts'
import { type Capabilities, type Provider, SandboxUnavailable } from './sandbox.ts'

export type ProviderOptions = {
  dataFolder: string
  allowHostBase: boolean
  /** As DOCKER_HOST. None: the socket of an ordinary installation. */
  dockerHost?: string | undefined
  /** What builds may reach besides public places. */
  buildHosts?: readonly Place[]
  /** Told in a sentence what `auto` took, and why nothing before it. */
  onChosen?: ((note: string) => void) | undefined
  log: Log
}

type Create = (options: ProviderOptions) => Provider

const PROVIDERS: Record<string, Create> = {
  auto: createAuto,
  docker: ({ dockerHost, dataFolder, buildHosts = [], log }) =>
    createDockerProvider({
      connection: connectionFrom(dockerHost),
      installation: installationOf(dataFolder),
      ...{ dataFolder, buildHosts, log },
    }),
  local: (options) => createLocalProvider({ ...options, runtime: 'auto' }),
  'local-bwrap': (options) => createLocalProvider({ ...options, runtime: 'bwrap' }),
  'local-runc': (options) => createLocalProvider({ ...options, runtime: 'runc' }),
}

/** The strongest walls first, among those that work here. */
const PREFERRED = ['docker', 'local-runc', 'local-bwrap']

export const providerNames: string[] = Object.keys(PROVIDERS)

export const findProvider = (name: string, options: ProviderOptions): Provider | undefined => PROVIDERS[name]?.(options)

export type Chosen = {
  name: string
  provider: Provider
  capabilities: Capabilities
  /** Those that come before it, and why they do not work here. */
  passedOver: { name: string; reason: string }[]
}

/** The first that passes its own test. Throws SandboxUnavailable when none does. */
export async function chooseProvider(options: ProviderOptions, names = PREFERRED): Promise<Chosen> {
  const passedOver: Chosen['passedOver'] = []
  for (const name of names) {
    const provider = findProvider(name, options)
    if (provider === undefined) continue
    try {
      return { name, provider, capabilities: await provider.selfTest(), passedOver }
    } catch (error) {
      if (!(error instanceof SandboxUnavailable)) throw error
      passedOver.push({ name, reason: error.message })
    }
  }
  const reasons = passedOver.map(({ name, reason }) => `${name}: ${reason}`)
  throw new SandboxUnavailable(`No sandbox works on this machine.\n${reasons.join('\n')}`)
}

/** For whoever asked, in lines. */
export const chosenNote = ({ name, capabilities, passedOver }: Chosen): string =>
  [
    `Sandboxes are run by ${name} (${capabilities.isolation}).`,
    ...passedOver.map((other) => `Not by ${other.name}: ${other.reason}`),
  ].join('\n')

/** Chosen when it is first needed, and then kept. */
function createAuto(options: ProviderOptions): Provider {
  let chosen: Promise<Chosen> | undefined
  const choose = async (): Promise<Provider> => {
    chosen ??= chooseProvider(options).then((found) => {
      options.log.info({ chosen: found.name, passedOver: found.passedOver }, 'sandbox chosen')
      options.onChosen?.(chosenNote(found))
      return found
    })
    chosen.catch(() => {
      chosen = undefined
    })
    return (await chosen).provider
  }
  return {
    name: 'auto',
    selfTest: async () => (await choose()).selfTest(),
    prepare: async (source, prepareOptions) => (await choose()).prepare(source, prepareOptions),
    openGroup: async (id) => (await choose()).openGroup(id),
    start: async (spec) => (await choose()).start(spec),
    reap: async () => (await choose()).reap(),
  }
}
