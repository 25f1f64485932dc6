import { setTimeout as wait } from 'node:timers/promises'
import type { Db } from '../../../platform/db/db.ts'
import { VERIFY_MODES } from '../../../trials/record.ts'
import type { CalibrationInput, CalibrationResult, TrialEngine } from '../engine.ts'
import { findCalibration, insertCalibration, withTryLock } from './sql.ts'

const WAIT_MS = 250

type CalibrationDeps = { db: Db; engine: TrialEngine }

/** Returns the calibration of a task in a sandbox. The first caller computes and stores it; concurrent callers wait. */
export async function calibrateOnce(
  deps: CalibrationDeps,
  request: CalibrationInput,
  signal: AbortSignal,
): Promise<CalibrationResult> {
  for (;;) {
    const stored = await findStored(deps.db, request)
    if (stored) return stored
    const name = `calibration ${request.task.digest} ${request.sandbox}`
    const locked = await withTryLock(deps.db, name, () => calibrateAndStore(deps, request, signal))
    if (locked) return locked.result
    await wait(WAIT_MS, undefined, { signal })
  }
}

async function findStored(db: Db, { task, sandbox }: CalibrationInput): Promise<CalibrationResult | undefined> {
  const row = await findCalibration(db, task.digest, sandbox)
  if (!row) return undefined
  return parseVerifySettings(row) ?? { kind: 'unfit', reason: row.reason ?? 'The task cannot be used for trials.' }
}

type CalibrationColumns = Record<'verifyMode' | 'agentNetwork' | 'verifierNetwork', string | null> & {
  carried: string[] | null
}

/** Parses stored columns. Returns undefined if the task is not calibrated or has no usable verify mode. */
export function parseVerifySettings({
  verifyMode,
  agentNetwork,
  verifierNetwork,
  carried,
}: CalibrationColumns): CalibrationResult | undefined {
  const mode = VERIFY_MODES.find((candidate) => candidate === verifyMode)
  if (!mode) return undefined
  return {
    kind: 'fit',
    mode,
    agentNetwork: parseVerifyNetwork(agentNetwork),
    verifierNetwork: parseVerifyNetwork(verifierNetwork),
    carried: carried ?? [],
  }
}

const parseVerifyNetwork = (text: string | null) => (text === 'required' ? 'required' : 'declared')

async function calibrateAndStore(
  { db, engine }: CalibrationDeps,
  request: CalibrationInput,
  signal: AbortSignal,
): Promise<CalibrationResult> {
  const concurrent = await findStored(db, request)
  if (concurrent) return concurrent
  const result = await engine.calibrate(request, signal)
  if (result.kind === 'broken') return result
  const fit = result.kind === 'fit' ? result : undefined
  await insertCalibration(db, {
    digest: request.task.digest,
    sandbox: request.sandbox,
    verify_mode: fit?.mode ?? null,
    agent_network: fit?.agentNetwork ?? null,
    verifier_network: fit?.verifierNetwork ?? null,
    carried: fit?.carried ?? [],
    reason: result.kind === 'unfit' ? result.reason : null,
  })
  return result
}
