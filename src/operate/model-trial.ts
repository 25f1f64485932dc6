import { listPublicModels } from '../catalog/models.ts'
import type { Config } from '../config.ts'
import { findModelKeyVariable, findModelSecret } from '../credentials/providers.ts'
import { memoryLedger } from '../gateway/memory-ledger.ts'
import { openModelConnection } from '../gateway/model-connection.ts'
import { termsFor } from '../gateway/model-terms.ts'
import type { GrantTotals } from '../gateway/totals.ts'
import { applyVerdict, decideVerdict, type ModelTrialClass } from '../gateway/verdict.ts'
import { findHarness } from '../harnesses/harnesses.ts'
import type { Log } from '../platform/log.ts'
import { UnknownName } from '../platform/unknown-name.ts'
import { type LocalTrialOptions, runLocalTrial } from '../trials/local-engine.ts'
import type { TrialRecord } from '../trials/record.ts'
import { startOwnGateway } from './own-gateway.ts'

export type ModelSelection = { catalogId: string; level: string | undefined; budgetUsd: number | undefined }
export type ModelTrialRecord = Omit<TrialRecord, 'class'> & { class: ModelTrialClass; model: GrantTotals | null }

/** Runs one trial, with a temporary gateway if the harness uses a model. */
export async function tryTaskWithModel(
  config: Config,
  log: Log,
  wish: LocalTrialOptions,
  wanted: ModelSelection | undefined,
): Promise<ModelTrialRecord> {
  const harness = wish.command === undefined ? findHarness(wish.harness) : undefined
  if (!harness || harness.protocols.length === 0) {
    if (wanted && (harness || wish.command !== undefined)) throw asksNone(wish)
    return { ...(await runLocalTrial(wish)), model: null }
  }
  if (!wanted) throw new UnknownName(`${harness.name} needs a model: --model. Known: ${modelNames()}.`)
  const { access, terms } = termsOf(wanted, harness)
  if (!findModelSecret(config.environment, terms.provider))
    throw new UnknownName(`No key for ${terms.provider} in the environment. ${keyHint(terms.provider)}`)

  await using undo = new AsyncDisposableStack()
  const ledger = memoryLedger()
  const gateway = await startOwnGateway(config, log, ledger)
  undo.defer(() => gateway.stop(0))
  const budgetMicros = wanted.budgetUsd === undefined ? null : Math.round(wanted.budgetUsd * 1e6)
  const expiresAt = new Date(Date.now() + DAY_MS)
  const way = { ledger, gatewayUrl: gateway.url }
  const { trialModel, close } = await openModelConnection(way, { ...NOBODY, access, terms, budgetMicros, expiresAt })
  undo.defer(async () => void (await close()))
  const record = await runLocalTrial({ ...wish, model: trialModel })
  return judged(record, await close())
}

const DAY_MS = 24 * 3600 * 1000
const NOBODY = { workspaceId: '', grantee: 'trial', credentialId: '', callsMax: 5000 }

/** Suggests how to provide a key. Custom models need a server. */
function keyHint(provider: string): string {
  const variable = findModelKeyVariable(provider)
  return variable === undefined ? 'Use `assay compare`, which takes credentials.' : `Set ${variable}.`
}

const asksNone = ({ command, harness }: LocalTrialOptions): UnknownName =>
  new UnknownName(
    `${command === undefined ? harness : 'A line of shell'} asks no model. Leave out --model, or name a coding agent with --harness.`,
  )

const modelNames = (): string =>
  listPublicModels()
    .flatMap(({ catalogId, protocols }) => (protocols.length > 0 ? [catalogId] : []))
    .join(', ')

function termsOf({ catalogId, level }: ModelSelection, harness: NonNullable<ReturnType<typeof findHarness>>) {
  const model = listPublicModels().find((known) => known.catalogId === catalogId)
  if (!model) throw new UnknownName(`The catalog has no model ${catalogId}. Known: ${modelNames()}.`)
  return termsFor(model, level ?? model.defaultLevel, harness)
}

function judged(record: TrialRecord, totals: GrantTotals): ModelTrialRecord {
  const verdict = decideVerdict(record, totals)
  const unscored = { reward: null, rewards: {} }
  if (verdict.kind === 'stopped')
    return { ...record, ...unscored, state: 'errored', class: 'operator_error', error: verdict.message, model: totals }
  return { ...applyVerdict(record, verdict), model: totals }
}
