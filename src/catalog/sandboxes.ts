/** A kind of sandbox that a comparison can choose. */
export type SandboxChoice = {
  id: string
  name: string
  /** Provider of the credentials that it takes. */
  provider: string
  /** True if a stored credential can name an engine. Workers without an engine of their own can then use that one. */
  hasEngines: boolean
  /** Field of the configuration without which this sandbox is not offered by default. */
  requiredConfig: 'kubernetesSettings' | null
}

export const sandboxChoices: readonly SandboxChoice[] = [
  { id: 'local', name: 'Local sandbox', provider: 'local', hasEngines: false, requiredConfig: null },
  { id: 'docker', name: 'Docker', provider: 'docker', hasEngines: true, requiredConfig: null },
  {
    id: 'kubernetes',
    name: 'Kubernetes',
    provider: 'kubernetes',
    hasEngines: false,
    requiredConfig: 'kubernetesSettings',
  },
]

export const findSandboxChoice = (id: string): SandboxChoice | undefined =>
  sandboxChoices.find((choice) => choice.id === id)

const STORED_SUFFIX = '.stored'

/** Returns the name under which workers report that they can use the engines of stored credentials. */
export const toEngineCapability = (sandbox: string): string => `${sandbox}${STORED_SUFFIX}`

export const isEngineCapability = (name: string): boolean => name.endsWith(STORED_SUFFIX)
