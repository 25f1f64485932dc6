import { mkdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import { openFolderSource } from '../harbor/folder-source.ts'
import { readTask } from '../harbor/read-task.ts'
import { bundlesFolder } from '../harnesses/bundles/bundle.ts'
import { type InstallOptions, install, isInstalled } from '../harnesses/bundles/install.ts'
import type { Harness } from '../harnesses/harness.ts'
import { findHarness, harnesses } from '../harnesses/harnesses.ts'
import type { Protocol } from '../harnesses/model-access.ts'
import { shellCommand } from '../harnesses/reference.ts'
import type { Log } from '../platform/log.ts'
import { UnknownName } from '../platform/unknown-name.ts'
import type { AllowedHost } from '../sandboxes/egress/rules.ts'
import { findProvider, providerNames } from '../sandboxes/sandboxes.ts'
import type { ModelPlace, TrialRequest } from './bench.ts'
import { type Calibration, calibrate, findMode, networksFor, readSolutionPaths } from './calibrate.ts'
import { type TrialRecord, VERIFY_MODES, type VerifyMode } from './record.ts'
import { reapScratch } from './scratch.ts'
import { runTrial } from './trial.ts'

export type TrialWish = {
  taskFolder: string
  /** A harness by name, or a line of shell in its place. */
  harness: string
  command: string | undefined
  /** For a harness that asks one. */
  model?: ModelPlace
  sandbox: string
  /** Undefined: found by trying the author's solution and doing nothing. */
  verifyMode: string | undefined
  variables: Record<string, string>
  dataFolder: string
  allowHostBase: boolean
  dockerHost: string | undefined
  buildHosts: readonly AllowedHost[]
  /** What `--sandbox auto` came to, in a sentence. */
  onSelected: (note: string) => void
  outputFolder: string
  signal: AbortSignal
  /** Before each trial, with what it is for: those that find the verify mode, and then the one that counts. */
  onTrial: (what: string) => void
  /** Of the trial that counts. */
  onPhase: TrialRequest['onPhase']
  onLog: (line: string) => void
  /** Archives of a program that are there, of how many. */
  onInstall: InstallOptions['onProgress']
  log: Log
}

/** The author's solution fails, or doing nothing passes: no trial of this task would mean anything. */
class TaskUnfit extends Error {
  override name = 'TaskUnfit'
}

/** One trial without a server or a database: what a task's author runs first. */
export async function tryTask(wish: TrialWish): Promise<TrialRecord> {
  const harness = wish.command === undefined ? namedHarness(wish.harness) : shellCommand(wish.command)
  const provider = openProvider(wish)
  const folder = resolve(wish.taskFolder)
  const { task, digest } = await readTask(await openFolderSource(folder))
  await mkdir(wish.outputFolder, { recursive: true })
  await provider.reap()
  await reapScratch(wish.outputFolder)

  const { variables, signal, onTrial, onPhase, onLog, outputFolder, model } = wish
  const common = { task, digest, folder, variables, signal, onPhase, onLog, outputFolder, keepsPatch: true }
  const bundles = { folder: bundlesFolder(wish.dataFolder), onProgress: wish.onInstall }
  const request = { ...common, bundles, ...(model ? { model } : {}) }
  if (wish.verifyMode !== undefined) {
    const verifyMode = readMode(wish.verifyMode)
    const carried = harness.isControl ? [] : await readSolutionPaths(provider, { ...request, onTrial }, verifyMode)
    return runTrial(provider, { ...request, harness, verifyMode, carried })
  }
  const finding = { onPhase: () => {}, onTrial: (what: string) => onTrial(`Finding the verify mode: ${what}`) }
  const found = await findMode(provider, { ...request, ...finding })
  if (found.kind === 'unfit') throw new TaskUnfit(found.reason)
  onTrial(`The trial: ${harness.id} in mode ${found.mode}`)
  return runTrial(provider, {
    ...request,
    harness,
    verifyMode: found.mode,
    carried: found.carried,
    networks: networksFor(found),
    isProven: true,
  })
}

export type CalibrationWish = Omit<TrialWish, 'harness' | 'command' | 'verifyMode' | 'onPhase' | 'onInstall'>

/** How a task is best verified, and what its rewards are worth. An unfit task is an answer, not an error. */
export async function calibrateTask(wish: CalibrationWish): Promise<Calibration & { task: TrialRecord['task'] }> {
  const provider = openProvider(wish)
  const folder = resolve(wish.taskFolder)
  const { task, digest } = await readTask(await openFolderSource(folder))
  await mkdir(wish.outputFolder, { recursive: true })
  await provider.reap()
  await reapScratch(wish.outputFolder)

  const { variables, signal, onTrial, onLog, outputFolder } = wish
  const request = { task, digest, folder, variables, signal, onPhase: () => {}, onTrial, onLog, outputFolder }
  return { task: { name: task.name, digest }, ...(await calibrate(provider, request)) }
}

/** Takes in an image under the name that a task's image or Dockerfile uses. Answers its digest. */
export async function importImage(
  path: string,
  name: string,
  options: Pick<TrialWish, 'dataFolder' | 'log'>,
): Promise<string> {
  const { createLocalProvider } = await import('../sandboxes/local.ts')
  const provider = createLocalProvider({ ...options, runtime: 'auto', allowHostBase: false })
  return (await provider.importRootfs(resolve(path), name)).digest
}

/** The programs of harnesses, with whether they are on this machine already. */
export async function listHarnesses(dataFolder: string): Promise<HarnessListing[]> {
  const folder = bundlesFolder(dataFolder)
  return Promise.all(
    harnesses.map(async ({ id, name, version, protocols, bundle }) => {
      const installed = bundle ? await isInstalled(bundle, folder) : null
      return { id, name, version, protocols: [...protocols], installed }
    }),
  )
}

/** `installed` is null where there is nothing to install. */
export type HarnessListing = Pick<Harness, 'id' | 'name' | 'version'> & {
  protocols: Protocol[]
  installed: boolean | null
}

/** Answers the folders. Throws HarnessUnfit when they cannot be had. */
export async function installHarness(
  id: string,
  { dataFolder, ...options }: Omit<InstallOptions, 'folder'> & { dataFolder: string },
): Promise<string[]> {
  const { bundle } = namedHarness(id)
  if (!bundle) return []
  const installed = await install(bundle, { ...options, folder: bundlesFolder(dataFolder) })
  return installed.map(({ source }) => source)
}

function namedHarness(id: string): Harness {
  const harness = findHarness(id)
  if (harness) return harness
  throw new UnknownName(`There is no harness ${id}. Known: ${harnesses.map((known) => known.id).join(', ')}.`)
}

function openProvider(
  wish: Pick<
    TrialWish,
    'sandbox' | 'dataFolder' | 'allowHostBase' | 'dockerHost' | 'buildHosts' | 'onSelected' | 'log'
  >,
) {
  const provider = findProvider(wish.sandbox, wish)
  if (provider) return provider
  throw new UnknownName(`There is no sandbox ${wish.sandbox}. Known: ${providerNames.join(', ')}.`)
}

function readMode(text: string): VerifyMode {
  const mode = VERIFY_MODES.find((candidate) => candidate === text)
  if (mode) return mode
  throw new UnknownName(`There is no verify mode ${text}. Known: ${VERIFY_MODES.join(', ')}.`)
}
