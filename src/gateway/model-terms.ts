import { resolveProtocol } from '../catalog/harnesses.ts'
import type { Model } from '../catalog/model.ts'
import type { Harness } from '../harnesses/harness.ts'
import type { ModelAccess } from '../harnesses/model-access.ts'
import { SANDBOX_GATEWAY_URL } from './dial.ts'
import type { Terms } from './ledger.ts'

/** The program cannot ask this model, or not for this level. */
export class ModelUnfit extends Error {
  override name = 'ModelUnfit'
}

/** How a program reaches a model from its sandbox, and what the gateway holds it to. Throws ModelUnfit. */
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
      protocols: [speech.protocol],
      wireLevel: speech.wireLevel,
      contextTokens: model.contextTokens,
      outputTokens: model.outputTokens,
      prices: model.prices,
      helpers: harness.helpers,
      recordBodies: false,
    },
  }
}
