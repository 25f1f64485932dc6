import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
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
import { type SandboxProvider, SandboxUnavailable, SandboxUnreachable } from '../../sandboxes/sandbox.ts'
import { chooseMode, toNetworks } from '../../trials/calibrate.ts'
import { runTrial } from '../../trials/run-trial.ts'
import type { AgentConfiguration, TrialRequest } from '../../trials/trial-request.ts'
import { type CalibrationInput, type CalibrationResult, CredentialGone, type TrialEngine } from './engine.ts'

type SandboxEngineDeps = {
  credentials: CredentialDeps
  blobs: Blobs
  /** Existing folder in which tasks are unpacked. */
  folder: string
  /** Folder of installed harness bundles. */
  bundles: string
  findProvider: (sandbox: string, secret: Secret) => SandboxProvider | undefined
  /** Time after which comparisons are paused if their sandbox engine is unreachable, for example because it restarts. */
  unreachableMaxMs: number
}

/** Runs trials in real sandboxes. */
export const createSandboxEngine = (deps: SandboxEngineDeps): TrialEngine => ({
  calibrate: (request, signal) =>
    withPreparedTask(deps, request, signal, (provider, prepared) => calibrateTask(deps, provider, prepared)),
  run: (request, signal) =>
    withPreparedTask(deps, request, signal, async (provider, prepared) => {
      await requireSecret(deps, request.workspaceId, request.credentialId)
      const { harness: id, harnessVersion: version, model, handover } = request
      const harness = await findChosenHarness(deps.credentials.db, request.workspaceId, { id, version })
      if (!harness) throw new Error(`Unknown harness ${id}`)
      const { mode: verifyMode, carried, ...needs } = request.verifySettings
      const trial: TrialRequest = {
        ...prepared,
        harness,
        model,
        handover,
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
      }
      const record = await runTrial(provider, trial).catch(async (error: unknown) => {
        // This error is thrown before the agent has started, so the trial can run again.
        if (!(error instanceof SandboxUnreachable)) throw error
        await requireWorking(deps, provider, signal)
        return runTrial(provider, trial)
      })
      // If the sandbox as a whole is broken, this throws: the trial did not cause the failure.
      if (record.class === 'sandbox_error') await requireWorking(deps, provider, signal)
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
  return { ...content, mcpServers: mcpServers.map(toMcpServer), arguments: harnesses[harness]?.arguments ?? [] }
}

function toMcpServer(server: ConfigurationContent['mcpServers'][number]): AgentConfiguration['mcpServers'][number] {
  if ('url' in server) return { name: server.name, transport: 'streamable-http', url: server.url, headers: [] }
  const [command = '', ...args] = server.command
  return { name: server.name, transport: 'stdio', command, args }
}

type BaseTrialRequest = Omit<TrialRequest, 'harness' | 'verifyMode' | 'networks'>

/** Calibrates a task. If the sandbox as a whole still works after a failure, the task caused it. */
async function calibrateTask(
  deps: SandboxEngineDeps,
  provider: SandboxProvider,
  request: BaseTrialRequest,
): Promise<CalibrationResult> {
  try {
    return await chooseMode(provider, request)
  } catch (error) {
    request.signal.throwIfAborted()
    if (!(error instanceof SandboxUnavailable)) throw error
    await requireWorking(deps, provider, request.signal)
    return { kind: 'broken', error: error.message }
  }
}

const PAUSE_MS_MIN = 500
const PAUSE_MS_MAX = 5000

/** Returns when the sandbox works. Throws SandboxUnavailable if it is broken, or unreachable for too long. */
async function requireWorking(
  { unreachableMaxMs }: SandboxEngineDeps,
  provider: SandboxProvider,
  signal: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + unreachableMaxMs
  for (let pauseMs = PAUSE_MS_MIN; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
    try {
      await provider.selfTest()
      return
    } catch (error) {
      if (!(error instanceof SandboxUnreachable) || performance.now() + pauseMs > deadline) throw error
    }
    await wait(pauseMs, undefined, { signal })
  }
}

/** Checks sandbox and credential, unpacks the task into a temporary folder and runs `work` with it. */
async function withPreparedTask<T>(
  deps: SandboxEngineDeps,
  request: CalibrationInput,
  signal: AbortSignal,
  work: (provider: SandboxProvider, request: BaseTrialRequest) => Promise<T>,
): Promise<T> {
  const secret = await requireSecret(deps, request.workspaceId, request.sandboxCredentialId)
  const provider = deps.findProvider(request.sandbox, secret)
  if (!provider) throw new SandboxUnavailable(`This worker does not provide the sandbox ${request.sandbox}.`)
  await requireWorking(deps, provider, signal)
  await using scratch = await openScratchFolder(deps.folder)
  const folder = join(scratch.path, 'task')
  await unpackContent({ db: deps.credentials.db, blobs: deps.blobs }, request.task.digest, folder)
  const { task, digest } = await readTask(await openFolderSource(folder), { includeIgnored: true })
  const { outputFolder, workspaceId } = request
  const prepared = { task, digest, folder, variables: {}, signal, onPhase: () => {}, outputFolder, workspaceId }
  return await work(provider, prepared)
}

const openUploadedBundle = ({ credentials, blobs }: SandboxEngineDeps, workspaceId: string, digest: string) =>
  openBundle({ db: credentials.db, blobs }, workspaceId, digest)

async function requireSecret({ credentials }: SandboxEngineDeps, workspaceId: string, id: string): Promise<Secret> {
  const opened = await openSecret(credentials, workspaceId, id)
  if (opened) return opened.secret
  throw new CredentialGone(`The credential ${id} no longer exists. Resume with a replacement.`)
}
