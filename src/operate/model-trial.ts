import type { Config } from '../config.ts'
import { explainTrial } from '../gateway/explanation.ts'
import { findHarness } from '../harnesses/harnesses.ts'
import { UnknownName } from '../platform/errors.ts'
import type { Log } from '../platform/log.ts'
import { type LocalTrialOptions, runLocalTrial } from '../trials/local-engine.ts'
import type { ModelTrialRecord } from './metered-trial.ts'
import type { ModelSelection } from './trial-models.ts'

/** Runs one trial, with a temporary gateway if the harness uses a model. */
export async function runModelTrial(
  config: Config,
  log: Log,
  options: LocalTrialOptions,
  selection: ModelSelection | undefined,
): Promise<ModelTrialRecord> {
  const harness = options.command === undefined ? findHarness(options.harness) : undefined
  if (harness && harness.protocols.length > 0) {
    // Loaded only here: most trials of task authors use no model.
    const { runMeteredTrial } = await import('./metered-trial.ts')
    return runMeteredTrial({ config, log }, options, selection, harness)
  }
  if (selection && (harness || options.command !== undefined)) throw toModelUnusedError(options)
  const record = await runLocalTrial(options)
  return { ...record, model: null, explanation: explainTrial(record, null) }
}

const toModelUnusedError = ({ command, harness }: LocalTrialOptions): UnknownName =>
  new UnknownName(
    `${command === undefined ? harness : 'A shell command'} uses no model. Omit --model, or name a coding agent with --harness.`,
  )
