import { mkdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import { inFolder } from '../harbor/folder-source.ts'
import { readTask } from '../harbor/read-task.ts'
import { harnesses } from '../harnesses/harnesses.ts'
import { shellCommand } from '../harnesses/shell-command.ts'
import type { Log } from '../platform/log.ts'
import { findProvider, providerNames } from '../sandboxes/sandboxes.ts'
import type { TrialRequest } from './bench.ts'
import { type Calibration, type CalibrationRequest, calibrate, findMode, networksFor } from './calibrate.ts'
import { type TrialRecord, VERIFY_MODES, type VerifyMode } from './record.ts'
import { reapScratch } from './scratch.ts'
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
  dockerHost: string | undefined
  /** What `--sandbox auto` came to, in a sentence. */
  onChosen: (note: string) => void
  outputFolder: string
  signal: AbortSignal
  onPhase: TrialRequest['onPhase']
  onLog: (line: string) => void
  log: Log
}

/** The wish names something that does not exist. */
class UnknownName extends Error {
  override name = 'UnknownName'
}

/** The author's solution fails, or doing nothing passes: no trial of this task would mean anything. */
class TaskUnfit extends Error {
  override name = 'TaskUnfit'
}

/** One trial without a server or a database: what a task's author runs first. */
export async function tryTask(wish: TrialWish): Promise<TrialRecord> {
  const harness = wish.command === undefined ? findHarness(wish.harness) : shellCommand(wish.command)
  const provider = openProvider(wish)
  const folder = resolve(wish.taskFolder)
  const { task, digest } = await readTask(await inFolder(folder))
  await mkdir(wish.outputFolder, { recursive: true })
  await provider.reap()
  await reapScratch(wish.outputFolder)

  const { variables, signal, onPhase, onLog, outputFolder } = wish
  const request = { task, digest, folder, variables, signal, onPhase, onLog, outputFolder }
  if (wish.verifyMode !== undefined) {
    return runTrial(provider, { ...request, harness, verifyMode: readMode(wish.verifyMode) })
  }
  const found = await findMode(provider, request)
  if (found.kind === 'unfit') throw new TaskUnfit(found.reason)
  return runTrial(provider, {
    ...request,
    harness,
    verifyMode: found.mode,
    networks: networksFor(found),
    isProven: true,
  })
}

export type CalibrationWish = Omit<TrialWish, 'harness' | 'command' | 'verifyMode' | 'onPhase'> & {
  onTrial: NonNullable<CalibrationRequest['onTrial']>
}

/** How a task is best verified, and what its rewards are worth. An unfit task is an answer, not an error. */
export async function calibrateTask(wish: CalibrationWish): Promise<Calibration & { task: TrialRecord['task'] }> {
  const provider = openProvider(wish)
  const folder = resolve(wish.taskFolder)
  const { task, digest } = await readTask(await inFolder(folder))
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

function findHarness(id: string) {
  const harness = harnesses.find((candidate) => candidate.id === id)
  if (harness) return harness
  throw new UnknownName(`There is no harness ${id}. Known: ${harnesses.map((known) => known.id).join(', ')}.`)
}

function openProvider(wish: Omit<CalibrationWish, 'onTrial'>) {
  const provider = findProvider(wish.sandbox, wish)
  if (provider) return provider
  throw new UnknownName(`There is no sandbox ${wish.sandbox}. Known: ${providerNames.join(', ')}.`)
}

function readMode(text: string): VerifyMode {
  const mode = VERIFY_MODES.find((candidate) => candidate === text)
  if (mode) return mode
  throw new UnknownName(`There is no verify mode ${text}. Known: ${VERIFY_MODES.join(', ')}.`)
}
