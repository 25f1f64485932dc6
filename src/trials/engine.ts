import { mkdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import { inFolder } from '../harbor/folder-source.ts'
import { readTask } from '../harbor/read-task.ts'
import { harnesses } from '../harnesses/harnesses.ts'
import { shellCommand } from '../harnesses/shell-command.ts'
import type { Log } from '../platform/log.ts'
import { findProvider, providerNames } from '../sandboxes/sandboxes.ts'
import type { TrialRequest } from './bench.ts'
import { type Calibration, calibrate } from './calibrate.ts'
import { type TrialRecord, VERIFY_MODES, type VerifyMode } from './record.ts'
import { runTrial } from './trial.ts'

export type TrialWish = {
  taskFolder: string
  /** A harness by name, or a line of shell in its place. */
  harness: string
  command: string | undefined
  sandbox: string
  /** Undefined: found by trying the author's solution and doing nothing. */
  verifyMode: string | undefined
  variables: Record<string, string>
  dataFolder: string
  allowHostBase: boolean
  outputFolder: string
  signal: AbortSignal
  onPhase: TrialRequest['onPhase']
  log: Log
}

/** The wish names something that does not exist. */
class UnknownName extends Error {
  override name = 'UnknownName'
}

/** The author's solution fails, or doing nothing passes: no trial of this task would mean anything. */
class TaskUnfit extends Error {
  override name = 'TaskUnfit'
  readonly calibration: Calibration

  constructor(reason: string, calibration: Calibration) {
    super(reason)
    this.calibration = calibration
  }
}

/** One trial without a server or a database: what a task's author runs first. */
export async function tryTask(wish: TrialWish): Promise<TrialRecord> {
  const harness = wish.command === undefined ? findHarness(wish.harness) : shellCommand(wish.command)
  const provider = openProvider(wish)
  const folder = resolve(wish.taskFolder)
  const { task, digest } = await readTask(await inFolder(folder))
  await mkdir(wish.outputFolder, { recursive: true })
  await provider.reap()

  const { variables, signal, onPhase, outputFolder } = wish
  const request = { task, digest, folder, variables, signal, onPhase, outputFolder }
  const verifyMode = wish.verifyMode === undefined ? await strictestMode(provider, request) : readMode(wish.verifyMode)
  return runTrial(provider, { ...request, harness, verifyMode })
}

/** Takes in a root filesystem under the name that a task's image or Dockerfile uses. Answers its digest. */
export async function importImage(
  path: string,
  name: string,
  options: Pick<TrialWish, 'dataFolder' | 'log'>,
): Promise<string> {
  const { createLocalProvider } = await import('../sandboxes/local.ts')
  const provider = createLocalProvider({ ...options, runtime: 'auto', allowHostBase: false })
  return (await provider.importRootfs(resolve(path), name)).digest
}

async function strictestMode(
  provider: ReturnType<typeof openProvider>,
  request: Parameters<typeof calibrate>[1],
): Promise<VerifyMode> {
  const calibration = await calibrate(provider, request)
  if (calibration.kind === 'fit') return calibration.mode
  throw new TaskUnfit(calibration.reason, calibration)
}

function findHarness(id: string) {
  const harness = harnesses.find((candidate) => candidate.id === id)
  if (harness) return harness
  throw new UnknownName(`There is no harness ${id}. Known: ${harnesses.map((known) => known.id).join(', ')}.`)
}

function openProvider(wish: TrialWish) {
  const provider = findProvider(wish.sandbox, wish)
  if (provider) return provider
  throw new UnknownName(`There is no sandbox ${wish.sandbox}. Known: ${providerNames.join(', ')}.`)
}

function readMode(text: string): VerifyMode {
  const mode = VERIFY_MODES.find((candidate) => candidate === text)
  if (mode) return mode
  throw new UnknownName(`There is no verify mode ${text}. Known: ${VERIFY_MODES.join(', ')}.`)
}
