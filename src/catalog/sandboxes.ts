/**
 * A sandbox that a comparison can choose, and the provider whose credentials it takes. `hasEngines`: a stored credential
 * names an engine, which a worker uses without having one of its own. `setting`: offered by default only if the operator
 * has set this.
 */
export type SandboxChoice = {
  id: string
  name: string
  provider: string
  hasEngines: boolean
  setting: 'kubernetesSettings' | null
}

export const sandboxChoices: readonly SandboxChoice[] = [
  { id: 'local', name: 'Local sandbox', provider: 'local', hasEngines: false, setting: null },
  { id: 'docker', name: 'Docker', provider: 'docker', hasEngines: true, setting: null },
  {
    id: 'kubernetes',
    name: 'Kubernetes',
    provider: 'kubernetes',
    hasEngines: false,
    setting: 'kubernetesSettings',
  },
]

export const findSandboxChoice = (id: string): SandboxChoice | undefined =>
  sandboxChoices.find((choice) => choice.id === id)

const STORED_SUFFIX = '.stored'

/** Returns the name under which workers report that they can use the engines of stored credentials. */
export const toEngineCapability = (sandbox: string): string => `${sandbox}${STORED_SUFFIX}`

export const isEngineCapability = (name: string): boolean => name.endsWith(STORED_SUFFIX)
