import { createReadStream } from 'node:fs'
import { join, posix } from 'node:path'
import { findExposure, findWeakness, listCommands, listTestFolders } from '../harbor/safety/verifier-strength.ts'
import type { TextFile } from '../harbor/safety/view.ts'
import type { Environment, Task, TaskStep } from '../harbor/task.ts'
import type { SandboxProvider } from '../sandboxes/sandbox.ts'
import { listMainArtifacts, listSidecarArtifacts } from './artifacts.ts'
import { isSystemFolder } from './base-filesystem.ts'
import { findMainService, toEnvironmentSource } from './environment.ts'
import { toMainLimits } from './limits.ts'
import type { VerifyMode } from './record.ts'
import { listModes } from './task-support.ts'
import type { TrialRequest } from './trial-request.ts'
import { addComposeVariables, fillEnv } from './variables.ts'

/**
 * Strength of a task's verifier. `weak`: a known cheat passes, or it is not shown that the tests only read the submission.
 * `strong`: neither, and the verifier is separate or has a grader. `standard`: neither.
 */
export type VerifierStrength = 'weak' | 'standard' | 'strong'

export function rateStrength(
  { steps }: Task,
  mode: VerifyMode,
  winners: string[],
  weakness: string | null,
): VerifierStrength {
  if (winners.length > 0 || weakness !== null) return 'weak'
  const isSeparate = steps.every(({ verifier }) => verifier.sandbox.mode === 'separate')
  return isSeparate || mode === 'grader' ? 'strong' : 'standard'
}

type WeaknessRequest = Pick<TrialRequest, 'task' | 'folder' | 'variables' | 'signal' | 'onLog'>

/**
 * Returns why the tests may execute what the agent left, judged without running them: by the mode, by their files, by the
 * artifacts, and by the environment of the built image. Null: they only read it.
 */
export async function findStaticWeakness(
  provider: SandboxProvider,
  request: WeaknessRequest,
  { mode, carried }: { mode: VerifyMode; carried: readonly string[] },
): Promise<string | null> {
  const { task, folder } = request
  if (mode === 'shared-cold' || mode === 'shared-live')
    return `In mode ${mode} the tests use programs that the agent can replace.`
  if (mode !== 'grader' && listModes(task).includes('grader'))
    return `The task declares a grader, and its tests run in mode ${mode}, in which every user can write the reward.`
  const submissions = new Map<TaskStep, string[]>()
  for (const step of task.steps) submissions.set(step, await listSubmission(provider, request, step, carried))
  const weakness = findWeakness(task, await readTests(task, folder), (step) => submissions.get(step) ?? [])
  if (weakness !== undefined) return weakness
  for (const [step, submission] of submissions) {
    const exposure = await findStepExposure(provider, request, step, submission)
    if (exposure !== undefined) return exposure
  }
  return null
}

/** Lists the paths of the agent's files that the verifier of a step sees. */
async function listSubmission(
  provider: SandboxProvider,
  request: WeaknessRequest,
  step: TaskStep,
  carried: readonly string[],
): Promise<string[]> {
  const { workdir } = await readSettings(provider, request, request.task.environment)
  return step.verifier.sandbox.mode === 'separate'
    ? [
        ...listMainArtifacts(step).map(({ source }) => posix.resolve(workdir, source)),
        // An agent may have taken over a service.
        ...listSidecarArtifacts(step).map(({ source }) => posix.resolve('/', source)),
      ]
    : [...(isSystemFolder(workdir) ? [] : [workdir]), ...carried]
}

const TEXT_MAX_BYTES = 1024 ** 2

async function readTests({ files, steps }: Task, folder: string): Promise<TextFile[]> {
  const folders = steps.flatMap(listTestFolders)
  const tests = files.filter(({ path }) => folders.some((each) => path.startsWith(`${each}/`)))
  return Promise.all(
    tests.map(async ({ path, bytes }) => ({
      path,
      text: await readStart(join(folder, path)),
      isWhole: bytes <= TEXT_MAX_BYTES,
    })),
  )
}

async function readStart(file: string): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of createReadStream(file, { end: TEXT_MAX_BYTES - 1 })) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8').replaceAll('\0', '')
}

/** Returns the setting that lets the verifier's environment execute files of the submission, or undefined. */
async function findStepExposure(
  provider: SandboxProvider,
  request: WeaknessRequest,
  step: TaskStep,
  submission: readonly string[],
): Promise<string | undefined> {
  const { sandbox } = step.verifier
  const environment = sandbox.mode === 'separate' ? sandbox.environment : request.task.environment
  const settings = await readSettings(provider, request, environment)
  const env = { ...settings.env, ...fillEnv(step.verifier.env, request.variables) }
  const commands = listCommands(environment, step, settings.entrypoint)
  const isSystemArtifact = (path: string): boolean => !path.startsWith('/logs/') && isSystemFolder(path)
  const systemArtifact = sandbox.mode === 'separate' ? submission.find(isSystemArtifact) : undefined
  return systemArtifact === undefined
    ? findExposure(env, commands, { submission, workdir: settings.workdir })
    : `The artifact ${systemArtifact} contains files that programs of the verifier read by themselves.`
}

/** Returns the settings with which processes of an environment start. The image was built by earlier trials. */
async function readSettings(
  provider: SandboxProvider,
  { folder, variables, signal, onLog = () => {} }: WeaknessRequest,
  environment: Environment,
): Promise<{ workdir: string; env: Record<string, string>; entrypoint: string[] }> {
  const main = findMainService(environment)
  const sourceInput = { folder, variables: addComposeVariables(variables) }
  const { buildTimeoutSec: timeoutSec, resources } = environment
  const options = { signal, timeoutSec, limits: toMainLimits(resources, main), onLog }
  const image = await provider.prepare(toEnvironmentSource(environment, sourceInput), options)
  return {
    workdir: environment.workdir ?? main?.workdir ?? image.workdir,
    // The command of an image is not run unless the image has an entrypoint.
    entrypoint: image.entrypoint,
    env: {
      ...image.env,
      ...fillEnv(main?.env ?? [], sourceInput.variables),
      ...fillEnv(environment.env, variables),
    },
  }
}
