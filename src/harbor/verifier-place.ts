import type { Config } from './config.ts'
import { ENVIRONMENT_FOLDER, environmentIn, isDefinedIn, type TaskFolder } from './environment.ts'
import type { EnvironmentConfig } from './environment-config.ts'
import type { StepConfig } from './step-config.ts'
import type { VerifierPlace } from './task.ts'

/** `hasTests`: they are in the image, and nothing is put into /tests. */
export type Placed = { place: VerifierPlace; hasTests: boolean }

/** Where the tests of a step are run. A step without a name is the whole task. */
export function verifierPlace(config: Config, step: StepConfig | null, files: TaskFolder): Placed {
  const mode = step?.verifier.mode ?? config.verifier.mode ?? 'shared'
  if (mode === 'shared') return { place: { mode }, hasTests: false }
  const settings = step?.verifier.environment ?? config.verifier.environment ?? config.environment
  const built = ownImage(config, step, files)
  if (!built) return { place: { mode, environment: likeTheAgents(config, settings, files) }, hasTests: false }
  const environment = environmentIn(built.folder, { ...settings, image: built.image }, files)
  return { place: { mode, environment }, hasTests: true }
}

type Built = { folder: string; image: string | null }

/** The nearest image that is the verifier's own: named, or built from the folder with the tests. */
function ownImage(config: Config, step: StepConfig | null, files: TaskFolder): Built | undefined {
  const candidates: [EnvironmentConfig | null, string][] = [[config.verifier.environment, 'tests']]
  if (step) candidates.unshift([step.verifier.environment, `steps/${step.name}/tests`])
  for (const [environment, folder] of candidates) {
    if (environment?.image) return { folder, image: environment.image }
    if (isDefinedIn(folder, files)) return { folder, image: null }
  }
  return undefined
}

function likeTheAgents(config: Config, settings: EnvironmentConfig, files: TaskFolder) {
  const { image, os } = config.environment
  return environmentIn(ENVIRONMENT_FOLDER, { ...settings, image, os: settings.os ?? os }, files)
}
