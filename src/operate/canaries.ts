import { listPublicModels } from '../catalog/models.ts'
import type { Config } from '../config.ts'
import { findModelSecret } from '../credentials/providers.ts'
import { createMemoryLedger } from '../gateway/memory-ledger.ts'
import { resolveModelTerms } from '../gateway/model-connection.ts'
import { mini } from '../harnesses/mini.ts'
import { UnknownName } from '../platform/errors.ts'
import { newId } from '../platform/ids.ts'
import type { Log } from '../platform/log.ts'
import { toMicros } from '../platform/usd.ts'
import {
  type CanaryFigure,
  type CanaryResult,
  type CanaryRole,
  computeFigures,
  type ModelOpener,
  type ModelSpending,
  measureModels,
  meetsTargets,
} from '../taskgen/canaries/measure.ts'
import {
  AUTHOR_LIMITS,
  isSameFamily,
  type ModelLimits,
  openStageModel,
  VERIFIER_LIMITS,
} from '../taskgen/models/stage-model.ts'
import { startOwnGateway } from './metered-trial.ts'

type MeasureCanariesOptions = {
  models: Record<CanaryRole, string>
  level: string | undefined
  budgetUsd: number | undefined
  signal: AbortSignal
  onDone(done: number, total: number): void
}

type ModelReport = ModelSpending & { catalogId: string; level: string }

export type CanaryReport = {
  author: ModelReport
  verifier: ModelReport
  /** True if both models are of the same vendor or family. */
  isSelfVerified: boolean
  figures: CanaryFigure[]
  /** True if every figure meets its target. */
  isEnough: boolean
  results: CanaryResult[]
}

/** Measures two models with the canaries, with a temporary gateway and without a server. */
export async function measureCanaries(
  config: Config,
  log: Log,
  options: MeasureCanariesOptions,
): Promise<CanaryReport> {
  const selected = { author: resolveTerms(options, 'author'), verifier: resolveTerms(options, 'verifier') }
  const ledger = createMemoryLedger()
  const gateway = await startOwnGateway(config, log, ledger)
  await using undo = new AsyncDisposableStack()
  undo.defer(() => gateway.stop(0))

  const createOpener = ({ access, terms }: SelectedModel, limits: ModelLimits): ModelOpener => {
    if (!findModelSecret(config.environment, terms.provider))
      return { missing: `No key for ${terms.provider} in the environment.` }
    return (subject, batchLeftMicros) =>
      openStageModel(
        { ledger, gatewayUrl: gateway.url },
        { ...NO_WORKSPACE, ...limits, access, terms, batchLeftMicros, grantee: `${subject} ${newId()}` },
      )
  }
  const openers = {
    author: createOpener(selected.author, AUTHOR_LIMITS),
    verifier: createOpener(selected.verifier, VERIFIER_LIMITS),
  }
  const { budgetUsd, signal, onDone } = options
  const budgetMicros = budgetUsd === undefined ? null : toMicros(budgetUsd)
  const { results, spending } = await measureModels(openers, { budgetMicros, signal, onDone })
  const figures = computeFigures(results)
  return {
    author: { ...toModelChoice(selected.author), ...spending.author },
    verifier: { ...toModelChoice(selected.verifier), ...spending.verifier },
    isSelfVerified: isSameFamily(toNamedModel(selected.author), toNamedModel(selected.verifier)),
    figures,
    isEnough: meetsTargets(figures),
    results,
  }
}

/** Grants of this command belong to no workspace. */
const NO_WORKSPACE = { workspaceId: '', credentialId: '', deferrals: 0 }

type SelectedModel = ReturnType<typeof resolveModelTerms>

/** Finds a model and its terms. Throws UnknownName, or ModelUnfit if the model does not support the level. */
function resolveTerms({ models, level }: MeasureCanariesOptions, role: CanaryRole): SelectedModel {
  const knownModels = listPublicModels().filter(({ protocols }) => protocols.length > 0)
  const model = knownModels.find(({ catalogId }) => catalogId === models[role])
  const names = knownModels.map(({ catalogId }) => catalogId).join(', ')
  if (!model) throw new UnknownName(`The catalog has no model ${models[role]}. Known: ${names}.`)
  return resolveModelTerms(model, level ?? model.defaultLevel, mini)
}

const toModelChoice = ({ access, terms }: SelectedModel) => ({ catalogId: terms.catalogId, level: access.level })
const toNamedModel = ({ terms }: SelectedModel) => ({ provider: terms.provider, name: terms.model })
