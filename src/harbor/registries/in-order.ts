import { type Registry, RegistryUnavailable, registryLabel } from './registry.ts'

/**
 * Several registries as one, in the operator's order. The first that knows the name decides, whatever it says. One
 * that does not answer is not passed over: the next might have another dataset of that name.
 */
export function inTheirOrder(registries: readonly Registry[]): Registry {
  return {
    name: registries.map(({ name }) => name).join(','),
    async resolve(reference, options) {
      for (const registry of registries) {
        const resolution = await registry.resolve(reference, options).catch((error) => {
          throw named(registry, error)
        })
        if (resolution.kind !== 'unknown') return resolution
      }
      return { kind: 'unknown' }
    },
    async open(dataset, options) {
      const registry = registries.find(({ name }) => name === dataset.registry)
      if (registry) return registry.open(dataset, options)
      const message = `The dataset came from a ${registryLabel(dataset.registry)} that is no longer in ASSAY_REGISTRIES.`
      throw new RegistryUnavailable(message, { isLasting: true })
    },
  }
}

/** Who asks for a dataset does not know the registries by their addresses. */
function named({ name }: Registry, error: unknown): unknown {
  if (!(error instanceof RegistryUnavailable) || error.isLasting) return error
  const { message, retryAfterMs } = error
  return new RegistryUnavailable(`The ${registryLabel(name)} does not answer as it should. ${message}`, {
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  })
}
