import { mkdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import { openFolderSource } from '../harbor/folder-source.ts'
import { readTask } from '../harbor/read-task.ts'
import { bundlesFolder } from '../harnesses/bundles/bundle.ts'
import { type InstallOptions, install, isInstalled } from '../harnesses/bundles/install.ts'
import type { Harness } from '../harnesses/harness.ts'
import { findHarness, harnesses } from '../harnesses/harnesses.ts'
import type { Protocol } from '../harnesses/model-access.ts'
import { createCommandHarness } from '../harnesses/reference.ts'
import { UnknownName } from '../platform/errors.ts'
import type { Log } from '../platform/log.ts'
import type { AllowedHost } from '../platform/outbound/url-rules.ts'
import { suggestName } from '../platform/suggestion.ts'
import { reapScratchFolders } from '../sandboxes/kernel/ownership.ts'
import { findProvider, providerNames } from '../sandboxes/sandboxes.ts'
import { type Calibration, calibrate, chooseMode, listSolutionPaths, toNetworks } from './calibrate.ts'
import { type TrialRecord, VERIFY_MODES, type VerifyMode } from './record.ts'
import { runTrial } from './run-trial.ts'
import type { TrialModel, TrialRequest } from './trial-request.ts'

export type LocalTrialOptions = {
  taskFolder: string
  /** Harness id. Ignored if `command` is set. */
  harness: string
  /** Shell command to run as the agent. */
  command: string | undefined
  /** Required by harnesses that call a model. */
  model?: TrialModel | undefined
  sandbox: string
  /** Multiplies the task's time limits. 1 if undefined. */
  timeoutMultiplier?: number | undefined
  /** Undefined for the strictest mode that works for the task, which is then found first. */
  verifyMode: string | undefined
  variables: Record<string, string>
  dataFolder: string
  allowHostBase: boolean
  dockerHost: string | undefined
  /** Path of the settings of the provider `kubernetes`. */
  kubernetesSettings?: string | undefined
  buildHosts: readonly AllowedHost[]
  /** Receives a sentence about the sandbox that `auto` selected. */
  onSelected: (note: string) => void
  outputFolder: string
  signal: AbortSignal
  /** Called with the purpose of each trial before it: the trials that find the verify mode, then the actual trial. */
  onTrial: (purpose: string) => void
  /** Reports phases of the actual trial only. */
  onPhase: TrialRequest['onPhase']
  onLog: (line: string) => void
  /** Reports the progress of installing the harness's programs. */
  onInstall: InstallOptions['onProgress']
  log: Log
}

/** Thrown when the reference solution fails or a no-op passes: a trial of this task would be meaningless. */
class TaskUnfit extends Error {
  override name = 'TaskUnfit'
}

/** Runs one trial without a server or a database. */
export async function runLocalTrial(options: LocalTrialOptions): Promise<TrialRecord> {
  const harness = options.command === undefined ? readHarness(options.harness) : createCommandHarness(options.command)
  const { provider, task, digest, folder } = await openTask(options)
  const { variables, signal, onTrial, onPhase, onLog, outputFolder, model, timeoutMultiplier } = options
  const bundles = { folder: bundlesFolder(options.dataFolder), onProgress: options.onInstall }
  const request = {
    task,
    digest,
    folder,
    variables,
    signal,
    onPhase,
    onLog,
    outputFolder,
    timeoutMultiplier,
    model,
    bundles,
    savesPatch: true,
  }
  if (options.verifyMode !== undefined) {
    const verifyMode = parseMode(options.verifyMode)
    const carried = harness.isControl ? [] : await listSolutionPaths(provider, { ...request, onTrial }, verifyMode)
    return runTrial(provider, { ...request, harness, verifyMode, carried })
  }
  const modeResult = await chooseMode(provider, {
    ...request,
    onPhase: () => {},
    onTrial: (purpose) => onTrial(`Finding the verify mode: ${purpose}`),
  })
  if (modeResult.kind === 'unfit') throw new TaskUnfit(modeResult.reason)
  onTrial(`The trial: ${harness.id} in mode ${modeResult.mode}`)
  return runTrial(provider, {
    ...request,
    harness,
    verifyMode: modeResult.mode,
    carried: modeResult.carried,
    networks: toNetworks(modeResult),
    isProven: true,
  })
}

type LocalCalibrationOptions = Omit<LocalTrialOptions, 'harness' | 'command' | 'verifyMode' | 'onPhase' | 'onInstall'>

/** Calibrates a task without a server or a database. An unfit task is a result, not an error. */
export async function calibrateLocalTask(
  options: LocalCalibrationOptions,
): Promise<Calibration & { task: TrialRecord['task'] }> {
  const { provider, task, digest, folder } = await openTask(options)
  const { variables, signal, onTrial, onLog, outputFolder } = options
  const request = { task, digest, folder, variables, signal, onPhase: () => {}, onTrial, onLog, outputFolder }
  return { task: { name: task.name, digest }, ...(await calibrate(provider, request)) }
}

/** Reads the task, opens the sandbox provider and removes leftovers of dead processes. */
async function openTask(options: LocalCalibrationOptions) {
  const provider = findProvider(options.sandbox, options)
  if (!provider)
    throw new UnknownName(
      `There is no sandbox ${options.sandbox}.${suggestName(options.sandbox, providerNames)} Known: ${providerNames.join(', ')}.`,
    )
  const folder = resolve(options.taskFolder)
  const { task, digest } = await readTask(await openFolderSource(folder))
  await mkdir(options.outputFolder, { recursive: true })
  await provider.reap()
  await reapScratchFolders(options.outputFolder)
  return { provider, task, digest, folder }
}

/** Imports an image under the name that tasks use for it. Returns its digest. */
export async function importImage(
  path: string,
  name: string,
  options: Pick<LocalTrialOptions, 'dataFolder' | 'log'>,
): Promise<string> {
  const { createLocalProvider } = await import('../sandboxes/local.ts')
  const provider = createLocalProvider({ ...options, runtime: 'auto', allowHostBase: false })
  return (await provider.importRootfs(resolve(path), name)).digest
}

/** Lists the built-in harnesses, and whether their programs are installed on this machine. */
export async function listHarnesses(dataFolder: string): Promise<HarnessListing[]> {
  const folder = bundlesFolder(dataFolder)
  return Promise.all(
    harnesses.map(async ({ id, name, version, protocols, bundle }) => {
      const installed = bundle ? await isInstalled(bundle, folder) : null
      return { id, name, version, protocols: [...protocols], installed }
    }),
  )
}

/** `installed` is null if there is nothing to install. */
type HarnessListing = Pick<Harness, 'id' | 'name' | 'version'> & {
  protocols: Protocol[]
  installed: boolean | null
}

/** Installs the programs of a harness and returns their folders. Throws HarnessUnfit. */
export async function installHarness(
  id: string,
  { dataFolder, ...options }: Omit<InstallOptions, 'folder'> & { dataFolder: string },
): Promise<string[]> {
  const { bundle } = readHarness(id)
  if (!bundle) return []
  const installed = await install(bundle, { ...options, folder: bundlesFolder(dataFolder) })
  return installed.map(({ source }) => source)
}

function readHarness(id: string): Harness {
  const harness = findHarness(id)
  if (harness) return harness
  const known = harnesses.map((each) => each.id)
  throw new UnknownName(`There is no harness ${id}.${suggestName(id, known)} Known: ${known.join(', ')}.`)
}

function parseMode(text: string): VerifyMode {
  const mode = VERIFY_MODES.find((candidate) => candidate === text)
  if (mode) return mode
  throw new UnknownName(
    `There is no verify mode ${text}.${suggestName(text, VERIFY_MODES)} Known: ${VERIFY_MODES.join(', ')}.`,
  )
}
