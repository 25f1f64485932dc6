import { findChosenHarness } from '../../catalog/harnesses.ts'
import { findModel } from '../../catalog/models.ts'
import type { Ledger } from '../../gateway/ledger.ts'
import { ModelUnfit, termsFor } from '../../gateway/model-terms.ts'
import { type OpenPlace, openPlace } from '../../gateway/place.ts'
import { readSettings } from '../../gateway/settings.ts'
import type { Db } from '../../platform/db/db.ts'
import { sharedBudgetOf, subjectOf } from './spend.ts'
import type { TrialFacts } from './sql.ts'

export type ModelTools = {
  db: Db
  ledger: Ledger
  /** Where a worker finds the gateway. Undefined: nobody has said. */
  gatewayUrl: () => string | undefined
}

/** More calls than any honest trial makes. */
const CALLS_MAX = 5000
/** A grant is closed with its trial; this is for those whose worker died. */
const OPEN_MS = 24 * 3600 * 1000

/** Undefined: nobody is asked in this trial. Throws ModelUnfit. */
export async function openModel(tools: ModelTools, trial: TrialFacts): Promise<OpenPlace | undefined> {
  const chosen = { id: trial.harness, version: trial.harnessVersion }
  const harness = await findChosenHarness(tools.db, trial.workspaceId, chosen)
  if (!harness) throw new ModelUnfit(`There is no harness ${trial.harness} any more.`)
  if (harness.protocols.length === 0) return undefined
  const gatewayUrl = tools.gatewayUrl()
  if (gatewayUrl === undefined)
    throw new ModelUnfit('The worker does not know where the gateway is: ASSAY_GATEWAY_URL.')
  const model = await findModel(tools.db, trial.workspaceId, trial.catalogId, { alsoRemoved: true })
  if (!model) throw new ModelUnfit(`The catalog has no ${trial.catalogId} any more.`)
  const { access, terms } = termsFor(model, trial.reasoningLevel, harness)
  const { recordBodies } = await readSettings(tools.db, trial.workspaceId)
  return openPlace(
    { ledger: tools.ledger, gatewayUrl },
    {
      access,
      terms: { ...terms, recordBodies },
      workspaceId: trial.workspaceId,
      subject: subjectOf(trial),
      credentialId: trial.credentialId,
      budgetMicros: trial.trialBudgetMicros,
      sharedBudget: sharedBudgetOf(trial.comparison),
      callsMax: CALLS_MAX,
      expiresAt: new Date(Date.now() + OPEN_MS),
    },
  )
}
