import { join } from 'node:path'
import { findChosenHarness, openBundle } from '../../catalog/harnesses.ts'
import { readContent } from '../../configurations/configurations.ts'
import type { ConfigurationContent } from '../../configurations/schema.ts'
import { unpackContent } from '../../contents/contents.ts'
import type { CredentialDeps } from '../../credentials/credentials.ts'
import type { Secret } from '../../credentials/seal.ts'
import { openSecret } from '../../credentials/secrets.ts'
import { openFolderSource } from '../../harbor/folder-source.ts'
import { readTask } from '../../harbor/read-task.ts'
import type { Blobs } from '../../platform/blobs/blob.ts'
import { openScratchFolder } from '../../sandboxes/kernel/ownership.ts'
import { type SandboxProvider, SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import { findMode, toNetworks } from '../../trials/calibrate.ts'
import { runTrial } from '../../trials/run-trial.ts'
import type { AgentConfiguration, TrialRequest } from '../../trials/trial-request.ts'
import { type CalibrationResult, CredentialGone, type TaskRunRequest, type TrialEngine } from './engine.ts'

export type SandboxEngineDeps = {
  credentials: CredentialDeps
  blobs: Blobs
  /** Existing folder in which tasks are unpacked. */
  folder: string
  /** Folder of installed harness bundles. */
  bundles: string
  findProvider: (sandbox: string, secret: Secret) => SandboxProvider | undefined
}

/** Runs trials in real sandboxes. */
export const createSandboxEngine = (deps: SandboxEngineDeps): TrialEngine => ({
  calibrate: (request, signal) => withPreparedTask(deps, request, signal, calibrateTask),
  run: (request, signal) =>
    withPreparedTask(deps, request, signal, async (provider, prepared) => {
      await requireSecret(deps, request.workspaceId, request.credentialId)
      const { harness: id, harnessVersion: version, model } = request
      const harness = await findChosenHarness(deps.credentials.db, request.workspaceId, { id, version })
      if (!harness) throw new Error(`Unknown harness ${id}`)
      const { mode: verifyMode, carried, ...needs } = request.verifying
      const record = await runTrial(provider, {
        ...prepared,
        harness,
        model,
        configuration: await readConfiguration(deps, id, request.configurationDigest),
        timeoutMultiplier: request.timeoutMultiplier ?? undefined,
        verifyMode,
        carried,
        networks: toNetworks(needs),
        savesPatch: true,
        bundles: {
          folder: deps.bundles,
          openUploaded: (digest: string) => openUploadedBundle(deps, request.workspaceId, digest),
        },
      })
      // If the sandbox as a whole is broken, this throws: the trial did not cause the failure.
      if (record.class === 'sandbox_error') await provider.selfTest()
      return record
    }),
})

async function readConfiguration(
  { blobs }: SandboxEngineDeps,
  harness: string,
  digest: string | null,
): Promise<AgentConfiguration | undefined> {
  if (digest === null) return undefined
  const { mcpServers, harnesses, ...content } = await readContent(blobs, digest)
  return { ...content, mcpServers: mcpServers.map(toServer), arguments: harnesses[harness]?.arguments ?? [] }
}

function toServer(server: ConfigurationContent['mcpServers'][number]): AgentConfiguration['mcpServers'][number] {
  if ('url' in server) return { name: server.name, transport: 'streamable-http', url: server.url, headers: [] }
  const [command = '', ...args] = server.command
  return { name: server.name, transport: 'stdio', command, args }
}

type BaseTrialRequest = Omit<TrialRequest, 'harness' | 'verifyMode' | 'networks'>

/** Calibrates a task. If the sandbox as a whole still works after a failure, the task caused it. */
async function calibrateTask(provider: SandboxProvider, request: BaseTrialRequest): Promise<CalibrationResult> {
  try {
    return await findMode(provider, request)
  } catch (error) {
    request.signal.throwIfAborted()
    if (!(error instanceof SandboxUnavailable)) throw error
    await provider.selfTest()
    return { kind: 'broken', error: error.message }
  }
}

/** Checks sandbox and credential, unpacks the task into a temporary folder and runs `work` with it. */
async function withPreparedTask<T>(
  deps: SandboxEngineDeps,
  request: TaskRunRequest,
  signal: AbortSignal,
  work: (provider: SandboxProvider, request: BaseTrialRequest) => Promise<T>,
): Promise<T> {
  const secret = await requireSecret(deps, request.workspaceId, request.sandboxCredentialId)
  const provider = deps.findProvider(request.sandbox, secret)
  if (!provider) throw new SandboxUnavailable(`This worker does not provide the sandbox ${request.sandbox}.`)
  await provider.selfTest()
  await using scratch = await openScratchFolder(deps.folder)
  const folder = join(scratch.path, 'task')
  await unpackContent({ db: deps.credentials.db, blobs: deps.blobs }, request.task.digest, folder)
  const { task, digest } = await readTask(await openFolderSource(folder))
  const { outputFolder } = request
  return await work(provider, { task, digest, folder, variables: {}, signal, onPhase: () => {}, outputFolder })
}

const openUploadedBundle = ({ credentials, blobs }: SandboxEngineDeps, workspaceId: string, digest: string) =>
  openBundle({ db: credentials.db, blobs }, workspaceId, digest)

async function requireSecret({ credentials }: SandboxEngineDeps, workspaceId: string, id: string): Promise<Secret> {
  const opened = await openSecret(credentials, workspaceId, id)
  if (opened) return opened.secret
  throw new CredentialGone(`The credential ${id} no longer exists. Resume with a replacement.`)
}
