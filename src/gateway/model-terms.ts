import { resolveProtocol } from '../catalog/harnesses.ts'
import type { Model } from '../catalog/model.ts'
import type { Harness } from '../harnesses/harness.ts'
import type { ModelAccess } from '../harnesses/model-access.ts'
import type { Terms } from './ledger.ts'
import { SANDBOX_GATEWAY_URL } from './sandbox-port.ts'

/** The harness does not support the model or the reasoning level. */
export class ModelUnfit extends Error {
  override name = 'ModelUnfit'
}

/** Returns how a harness reaches a model from its sandbox, and the terms of its grant. Throws `ModelUnfit`. */
export function termsFor(
  model: Model,
  levelName: string,
  harness: Harness,
): { access: Omit<ModelAccess, 'token'>; terms: Terms } {
  const speech = resolveProtocol(harness, model, levelName)
  if (!speech) throw new ModelUnfit(`${harness.name} cannot ask ${model.label} for exactly the level ${levelName}.`)
  return {
    access: { ...speech, baseUrl: SANDBOX_GATEWAY_URL },
    terms: {
      catalogId: model.catalogId,
      model: model.name,
      provider: model.provider,
      baseUrl: model.baseUrl,
      cloud: model.cloud,
      protocols: [speech.protocol],
      wireLevel: speech.wireLevel,
      contextTokens: model.contextTokens,
      isContextDeclared: model.custom,
      outputTokens: model.outputTokens,
      prices: model.prices,
      helpers: harness.helpers,
      recordBodies: false,
    },
  }
}
