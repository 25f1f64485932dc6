import { join } from 'node:path'
import { openBundle } from '../../catalog/custom-harnesses/bundles.ts'
import { findChosenHarness } from '../../catalog/harnesses.ts'
import { unpackContent } from '../../contents/contents.ts'
import type { Tools as CredentialTools } from '../../credentials/credentials.ts'
import { openSecret } from '../../credentials/secrets.ts'
import { openFolderSource } from '../../harbor/folder-source.ts'
import { readTask } from '../../harbor/read-task.ts'
import type { Blobs } from '../../platform/blobs/blob.ts'
import { type Provider, SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import type { TrialRequest } from '../../trials/bench.ts'
import { findMode, networksFor } from '../../trials/calibrate.ts'
import { openScratch } from '../../trials/scratch.ts'
import { runTrial } from '../../trials/trial.ts'
import { type Calibrated, CredentialGone, type Engine, type TaskOrder, type Watch } from './engine.ts'

export type EngineTools = {
  credentials: CredentialTools
  blobs: Blobs
  /** Where tasks are unpacked. It exists. */
  folder: string
  /** Where the programs of harnesses are installed. */
  bundles: string
  findProvider: (sandbox: string) => Provider | undefined
}

/** Runs trials in real sandboxes. */
export const sandboxEngine = (tools: EngineTools): Engine => ({
  calibrate: (order, watch) => prepared(tools, order, watch, (provider, request) => modeOf(provider, request)),
  run: (order, watch) =>
    prepared(tools, order, watch, async (provider, request) => {
      await requireCredential(tools, order.workspaceId, order.credentialId)
      const chosen = { id: order.harness, version: order.harnessVersion }
      const harness = await findChosenHarness(tools.credentials.db, order.workspaceId, chosen)
      if (!harness) throw new Error(`There is no harness ${order.harness}.`)
      const { mode: verifyMode, carried, ...needs } = order.verifying
      const { model } = order
      const wanted = {
        ...request,
        harness,
        verifyMode,
        carried,
        networks: networksFor(needs),
        keepsPatch: true,
        bundles: {
          folder: tools.bundles,
          openSent: (digest: string) => openSentBundle(tools, order.workspaceId, digest),
        },
      }
      const record = await runTrial(provider, model ? { ...wanted, model } : wanted)
      // Without the sandbox as a whole no attempt means anything: that is not this trial's trouble.
      if (record.class === 'sandbox_error') await provider.selfTest()
      return record
    }),
})

type Request = Omit<TrialRequest, 'harness' | 'verifyMode' | 'networks'>

/** Where the sandbox as a whole works, what breaks here breaks with this task. */
async function modeOf(provider: Provider, request: Request): Promise<Calibrated> {
  try {
    return await findMode(provider, request)
  } catch (error) {
    request.signal.throwIfAborted()
    if (!(error instanceof SandboxUnavailable)) throw error
    await provider.selfTest()
    return { kind: 'broken', error: error.message }
  }
}

/** With the sandbox at hand and the task unpacked, for as long as the work takes. */
async function prepared<T>(
  tools: EngineTools,
  order: TaskOrder,
  { signal }: Watch,
  work: (provider: Provider, request: Request) => Promise<T>,
): Promise<T> {
  const provider = tools.findProvider(order.sandbox)
  if (!provider) throw new SandboxUnavailable(`This worker has no sandbox ${order.sandbox}.`)
  await provider.selfTest()
  await requireCredential(tools, order.workspaceId, order.sandboxCredentialId)
  await using scratch = await openScratch(tools.folder)
  const folder = join(scratch.path, 'task')
  await unpackContent({ db: tools.credentials.db, blobs: tools.blobs }, order.task.digest, folder)
  const { task, digest } = await readTask(await openFolderSource(folder))
  const { outputFolder } = order
  return await work(provider, { task, digest, folder, variables: {}, signal, onPhase: () => {}, outputFolder })
}

const openSentBundle = ({ credentials, blobs }: EngineTools, workspaceId: string, digest: string) =>
  openBundle({ db: credentials.db, blobs }, workspaceId, digest)

async function requireCredential({ credentials }: EngineTools, workspaceId: string, id: string): Promise<void> {
  if (await openSecret(credentials, workspaceId, id)) return
  throw new CredentialGone(`The credential ${id} is not there any more. Resume with another in its place.`)
}
