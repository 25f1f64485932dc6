/** A sandbox that a comparison can choose, and the provider whose credentials it takes. */
export type SandboxChoice = { id: string; name: string; provider: string }

export const sandboxChoices: readonly SandboxChoice[] = [
  { id: 'local', name: 'Local sandbox', provider: 'local' },
  { id: 'docker', name: 'Docker', provider: 'docker' },
]

export const findSandboxChoice = (id: string): SandboxChoice | undefined =>
  sandboxChoices.find((choice) => choice.id === id)
