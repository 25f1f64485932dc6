import { publicModels } from '../catalog/models.ts'
import type { Config } from '../config.ts'
import { modelSecretIn } from '../credentials/providers.ts'
import { memoryLedger } from '../gateway/memory-ledger.ts'
import { termsFor } from '../gateway/model-terms.ts'
import { mini } from '../harnesses/mini.ts'
import { newId } from '../platform/ids.ts'
import type { Log } from '../platform/log.ts'
import { type CanaryFigure, type CanaryResult, computeFigures, meetsTargets } from '../taskgen/canaries/figures.ts'
import { type CanaryRole, type ModelOpener, type ModelSpending, measureModels } from '../taskgen/canaries/measure.ts'
import { isSameFamily } from '../taskgen/models/served-model.ts'
import { AUTHOR_LIMITS, type ModelLimits, openStageModel, VERIFIER_LIMITS } from '../taskgen/models/stage-model.ts'
import { UnknownName } from '../trials/engine.ts'
import { startOwnGateway } from './own-gateway.ts'

export type CanaryWish = {
  models: Record<CanaryRole, string>
  level: string | undefined
  budgetUsd: number | undefined
  signal: AbortSignal
  onDone(done: number, of: number): void
}

type Asked = ModelSpending & { catalogId: string; level: string }

export type CanaryReport = {
  author: Asked
  verifier: Asked
  /** Both are of one house. */
  isSelfVerified: boolean
  figures: CanaryFigure[]
  isEnough: boolean
  results: CanaryResult[]
}

/** What two models make of the canaries. There is no server: the gateway lives as long as it takes. */
export async function measureCanaries(config: Config, log: Log, wish: CanaryWish): Promise<CanaryReport> {
  const chosen = { author: findTerms(wish, 'author'), verifier: findTerms(wish, 'verifier') }
  const ledger = memoryLedger()
  const gateway = await startOwnGateway(config, log, ledger)
  await using undo = new AsyncDisposableStack()
  undo.defer(() => gateway.stop(0))

  const openerOf = ({ access, terms }: Chosen, limits: ModelLimits): ModelOpener => {
    if (!modelSecretIn(config.environment, terms.provider))
      return { missing: `There is no key for ${terms.provider} in the environment.` }
    return (subject, batchLeftMicros) =>
      openStageModel(
        { ledger, gatewayUrl: gateway.url },
        { ...NOBODY, ...limits, access, terms, batchLeftMicros, subject: `${subject} ${newId()}` },
      )
  }
  const openers = {
    author: openerOf(chosen.author, AUTHOR_LIMITS),
    verifier: openerOf(chosen.verifier, VERIFIER_LIMITS),
  }
  const { budgetUsd, signal, onDone } = wish
  const budgetMicros = budgetUsd === undefined ? null : Math.round(budgetUsd * 1e6)
  const { results, spending } = await measureModels(openers, { budgetMicros, signal, onDone })
  const all = computeFigures(results)
  return {
    author: { ...asked(chosen.author), ...spending.author },
    verifier: { ...asked(chosen.verifier), ...spending.verifier },
    isSelfVerified: isSameFamily(named(chosen.author), named(chosen.verifier)),
    ...{ figures: all, isEnough: meetsTargets(all), results },
  }
}

const NOBODY = { workspaceId: '', credentialId: '', deferrals: 0 }

type Chosen = ReturnType<typeof termsFor>

/** Throws UnknownName, and ModelUnfit where it cannot be asked at this level. */
function findTerms({ models, level }: CanaryWish, role: CanaryRole): Chosen {
  const known = publicModels().filter(({ protocols }) => protocols.length > 0)
  const model = known.find(({ catalogId }) => catalogId === models[role])
  const names = known.map(({ catalogId }) => catalogId).join(', ')
  if (!model) throw new UnknownName(`The catalog has no model ${models[role]}. Known: ${names}.`)
  return termsFor(model, level ?? model.defaultLevel, mini)
}

const asked = ({ access, terms }: Chosen) => ({ catalogId: terms.catalogId, level: access.level })
const named = ({ terms }: Chosen) => ({ provider: terms.provider, name: terms.model })
