import type { Config } from '../config.ts'
import { findModelSecret, resolveUpstream } from '../credentials/providers.ts'
import type { Secret } from '../credentials/seal.ts'
import { explainTrial } from '../gateway/explanation.ts'
import { type Gateway, startGateway } from '../gateway/gateway.ts'
import type { Ledger } from '../gateway/ledger.ts'
import { createMemoryLedger } from '../gateway/memory-ledger.ts'
import { openModelConnection, resolveModelTerms } from '../gateway/model-connection.ts'
import type { GrantTotals } from '../gateway/totals.ts'
import { applyVerdict, decideVerdict, type ModelTrialClass } from '../gateway/verdict.ts'
import type { Harness } from '../harnesses/harness.ts'
import { UnknownName } from '../platform/errors.ts'
import type { Log } from '../platform/log.ts'
import { createOpenStream } from '../platform/outbound/open-stream.ts'
import { toMicros } from '../platform/usd.ts'
import { type LocalTrialOptions, runLocalTrial } from '../trials/local-engine.ts'
import type { TrialRecord } from '../trials/record.ts'
import { listModelNames, type ModelSelection, resolveTrialModel } from './trial-models.ts'

export type ModelTrialRecord = Omit<TrialRecord, 'class'> & {
  class: ModelTrialClass
  model: GrantTotals | null
  /** Reason why the trial has no full score, in one sentence. Null after a full score. */
  explanation: string | null
}

/** Runs one trial of a harness that uses a model, through a temporary gateway that meters its calls. */
export async function runMeteredTrial(
  { config, log }: { config: Config; log: Log },
  options: LocalTrialOptions,
  selection: ModelSelection | undefined,
  harness: Harness,
): Promise<ModelTrialRecord> {
  if (!selection)
    throw new UnknownName(`${harness.name} needs a model: --model. Known: ${listModelNames().join(', ')}.`)
  const { model, secret } = await resolveTrialModel(config, log, selection)
  const { access, terms } = resolveModelTerms(model, selection.level ?? model.defaultLevel, harness)

  await using undo = new AsyncDisposableStack()
  const ledger = createMemoryLedger()
  const gateway = await startOwnGateway(config, log, ledger, secret)
  undo.defer(() => gateway.stop(0))
  const budgetMicros = selection.budgetUsd === undefined ? null : toMicros(selection.budgetUsd)
  const expiresAt = new Date(Date.now() + DAY_MS)
  const { trialModel, close } = await openModelConnection(
    { ledger, gatewayUrl: gateway.url },
    { ...LOCAL_GRANT, access, terms, budgetMicros, expiresAt },
  )
  undo.defer(async () => void (await close()))
  const record = await runLocalTrial({ ...options, model: trialModel })
  return toModelRecord(record, await close())
}

const DAY_MS = 24 * 3600 * 1000
/** The grant of a trial without a server belongs to no workspace. */
const LOCAL_GRANT = { workspaceId: '', grantee: 'trial', credentialId: '', callsMax: 5000 }

function toModelRecord(record: TrialRecord, totals: GrantTotals): ModelTrialRecord {
  const verdict = decideVerdict(record, totals)
  const unscored = { reward: null, rewards: {} }
  const finalRecord =
    verdict.kind === 'stopped'
      ? { ...record, ...unscored, state: 'errored' as const, class: 'operator_error' as const, error: verdict.message }
      : applyVerdict(record, verdict)
  return { ...finalRecord, model: totals, explanation: explainTrial(finalRecord, totals) }
}

/**
 * Starts a gateway of this process, which needs no Assay server. It uses `secret`, or else the keys of the environment. The
 * caller stops it.
 */
export const startOwnGateway = (config: Config, log: Log, ledger: Ledger, secret?: Secret): Promise<Gateway> =>
  startGateway(
    {
      ledger,
      openStream: createOpenStream(),
      openSecret: async ({ terms }) => secret ?? findModelSecret(config.environment, terms.provider),
      // The user who runs this process may connect to any address of the machine anyway.
      resolveUpstream: (terms) => resolveUpstream(terms, config.upstreams, 'operator'),
      log,
      counters: { countSettlement: () => {}, countRefusal: () => {}, countRetry: () => {} },
    },
    { host: '127.0.0.1', port: 0 },
  )
