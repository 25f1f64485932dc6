import { findModel } from '../../catalog/models.ts'
import type { Ledger } from '../../gateway/ledger.ts'
import { ModelUnfit, termsFor } from '../../gateway/model-terms.ts'
import { mini } from '../../harnesses/mini.ts'
import type { Db } from '../../platform/db/db.ts'
import { type ModelLimits, openStageModel, type StageModel } from '../models/stage-model.ts'
import type { TaskFacts } from './facts.ts'
import { granteeOf, type ModelRole } from './spend.ts'

export type StageModelDeps = { db: Db; ledger: Ledger; gatewayUrl: () => string | undefined }

type StageModelInput = { role: ModelRole; limits: ModelLimits; batchLeftMicros: number | null }

/** The way of one task to its author or verifier. Throws ModelUnfit. */
export async function openTaskModel(
  { db, ledger, gatewayUrl: urlOf }: StageModelDeps,
  task: TaskFacts,
  { role, limits, batchLeftMicros }: StageModelInput,
): Promise<StageModel> {
  const gatewayUrl = urlOf()
  if (gatewayUrl === undefined)
    throw new ModelUnfit('The worker does not know where the gateway is: ASSAY_GATEWAY_URL.')
  const { authorModel, verifierModel, reasoning, keys } = task.generation
  const catalogId = role === 'author' ? authorModel : verifierModel
  const model = await findModel(db, task.workspaceId, catalogId, { alsoRemoved: true })
  if (!model) throw new ModelUnfit(`The catalog has no ${catalogId} any more.`)
  return openStageModel(
    { ledger, gatewayUrl },
    {
      ...termsFor(model, reasoning, mini),
      workspaceId: task.workspaceId,
      subject: granteeOf(task, role),
      credentialId: keys[role],
      ...limits,
      batchLeftMicros,
      deferrals: task.deferrals,
    },
  )
}
