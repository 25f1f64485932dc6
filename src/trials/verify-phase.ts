import { createReadStream } from 'node:fs'
import { chmod, mkdtemp, open } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { stripVTControlCharacters } from 'node:util'
import { unpack } from '../harbor/archive.ts'
import { ArchiveRefused } from '../harbor/archive-stream.ts'
import { isWithin } from '../harbor/paths.ts'
import { type RewardResult, readReward } from '../harbor/reward.ts'
import type { TaskStep } from '../harbor/task.ts'
import { oracle } from '../harnesses/reference.ts'
import { printable } from '../platform/terminal-text.ts'
import {
  type BaseFilesystem,
  type Exit,
  type Mount,
  type Sandbox,
  SandboxUnavailable,
  type SandboxUpload,
  type StoppedSandbox,
} from '../sandboxes/sandbox.ts'
import type { CollectedArtifact } from './artifacts.ts'
import {
  isStartupFile,
  isSystemFolder,
  listCarriedPaths,
  listStartupFilesIn,
  listVerifierBases,
} from './base-filesystem.ts'
import { type RunningEnvironment, runInMain } from './environment.ts'
import { type Fallback, findSandboxFailure, withFallbacks } from './fallbacks.ts'
import { SMALL_OUTPUT_BYTES, VERIFIER_OUTPUT_BYTES } from './limits.ts'
import { type NetworkRecord, toNoNetworkRecord } from './network.ts'
import { toStepOutcome } from './outcome.ts'
import type { StepRecord, VerifyMode } from './record.ts'
import { EnvironmentNotReady, type RunningSandbox } from './running-sandbox.ts'
import type { StepContext } from './step-context.ts'
import { guardSubmission } from './submission-guard.ts'
import { packPath } from './tar.ts'
import { stageFolders } from './task-files.ts'
import { fillEnv } from './variables.ts'

export type StepVerdict = Pick<StepRecord, 'verifier' | 'reward' | 'rewards' | 'error' | 'failedTests'> & {
  network: NetworkRecord
  /** Paths that the verifier took over by name, as in `TrialRequest`. Undefined in mode `shared-live`. */
  carried?: readonly string[] | undefined
}

/** Modes in which the agent's files reach the tests only through the submission guard. */
const STRICT_MODES: readonly VerifyMode[] = ['grader', 'workspace', 'snapshot']

const FALLBACK_NOTES = {
  snapshot: 'All files that the agent left were judged.',
  workspace: 'Only the working directory was judged.',
  image: 'None of the files that the agent left were judged.',
}

/** Verifies the files that the agent left, in a fresh sandbox. No process of the agent is alive. */
export async function verifyFresh(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  from: StoppedSandbox | undefined,
): Promise<StepVerdict> {
  const { verifyMode } = context.request
  const { workdir } = environment
  const mode = verifyMode === 'shared-live' ? 'shared-cold' : verifyMode
  const carried = await listPathsToCarry(context, environment, mode, from)
  const startupFiles = await listStartupFilesToKeep(context, mode, from, [workdir, ...carried])
  const attempts = listVerifierBases(mode, { from, workdir, carried }).map((base) => ({
    note: FALLBACK_NOTES[base.kind],
    run: () => {
      const submission = { from, paths: base.kind === 'workspace' ? base.paths : [], startupFiles }
      return runVerifier(context, environment, step, { mode, base, openUploads: () => [], submission })
    },
  }))
  const verdict = await verifyWithFallbacks(context, step, attempts)
  return { ...verdict, carried: [...new Set([...carried, ...startupFiles])] }
}

/** Returns the startup files in the submission that the reference solution changes: they are part of the work. */
async function listStartupFilesToKeep(
  { request }: StepContext,
  mode: VerifyMode,
  from: StoppedSandbox | undefined,
  paths: readonly string[],
): Promise<string[]> {
  if (!from || !STRICT_MODES.includes(mode)) return []
  if (request.harness.id !== oracle.id) return (request.carried ?? []).filter(isStartupFile)
  return listStartupFilesIn(from.changes(), paths)
}

/**
 * Returns the paths that the reference solution changes: those outside the working directory, or all if that is a system
 * folder.
 */
async function listPathsToCarry(
  { request }: StepContext,
  { workdir }: RunningEnvironment,
  mode: VerifyMode,
  from: StoppedSandbox | undefined,
): Promise<string[]> {
  const isNeeded = mode === 'snapshot' || (STRICT_MODES.includes(mode) && isSystemFolder(workdir))
  if (!isNeeded || !from) return []
  if (request.harness.id !== oracle.id)
    return (request.carried ?? []).filter((path) => isSystemFolder(workdir) || !isWithin(path, workdir))
  return (await listCarriedPaths(from.changes(), workdir)) ?? []
}

/** Verifies only the artifacts, in the verifier's own environment. Each has the same path as in the agent's sandbox. */
export async function verifySeparately(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  { collected, from }: { collected: CollectedArtifact[]; from: StoppedSandbox | undefined },
): Promise<StepVerdict> {
  const startupFiles = await listStartupFilesToKeep(context, 'workspace', from, listPaths(collected))
  const verify = (artifacts: CollectedArtifact[]) =>
    runVerifier(context, environment, step, {
      mode: 'workspace',
      base: { kind: 'image' },
      openUploads: () => artifacts.flatMap(toUploads),
      submission: { from, paths: listPaths(artifacts), startupFiles },
    })
  const verdict = await verifyWithFallbacks(context, step, [
    { note: '', run: () => verify(collected) },
    {
      note: "Artifacts that cannot be put into the verifier's environment were not judged.",
      run: async () => verify(await listUploadable(context, environment, collected)),
    },
    { note: 'No artifact was judged.', run: () => verify([]) },
  ])
  return { ...verdict, carried: startupFiles }
}

const listPaths = (artifacts: CollectedArtifact[]): string[] =>
  artifacts.filter(({ tar }) => tar !== undefined).map(({ path }) => path)

const toUploads = ({ path, tar }: CollectedArtifact): SandboxUpload[] =>
  tar === undefined ? [] : [{ target: posix.dirname(path), tar: createReadStream(tar) }]

/** Returns the artifacts with which a sandbox can be started, each tried alone. */
async function listUploadable(
  context: StepContext,
  environment: RunningEnvironment,
  artifacts: CollectedArtifact[],
): Promise<CollectedArtifact[]> {
  const uploadable: CollectedArtifact[] = []
  for (const artifact of artifacts) {
    const failure = await findSandboxFailure(context, async () => {
      context.removeLater(await probeSandbox(context, environment, toUploads(artifact)))
    })
    if (failure === undefined) uploadable.push(artifact)
  }
  return uploadable
}

const PROBE_SECONDS = 60

/** Starts a sandbox with the image and some uploads, and ends it. */
async function probeSandbox(
  context: StepContext,
  environment: RunningEnvironment,
  uploads: SandboxUpload[],
): Promise<Sandbox> {
  const limits = { seconds: PROBE_SECONDS, outputBytes: SMALL_OUTPUT_BYTES }
  const network = context.openPhaseNetwork({ mode: 'no-network', hosts: [] }, 'verifier')
  const ran = await runInMain(context, environment, 'probe', {
    sandbox: { base: { kind: 'image' }, uploads, mounts: [], env: {}, network, limits },
    command: { command: ['true'], ...limits },
  })
  return ran.sandbox
}

/**
 * Runs the attempts. If the environment does not become ready, returns the error without a reward, and a control run finds
 * the cause. Throws the error if the harness is a control itself.
 */
async function verifyWithFallbacks(
  context: StepContext,
  step: TaskStep,
  [first, ...fallbacks]: Fallback<StepVerdict>[],
): Promise<StepVerdict> {
  if (first === undefined) throw new Error('verifyWithFallbacks needs at least one attempt.')
  try {
    return await withFallbacks(context, first.run, fallbacks)
  } catch (error) {
    if (!(error instanceof EnvironmentNotReady) || context.request.harness.isControl) throw error
    const network = toNoNetworkRecord(step.verifier.network)
    return { verifier: null, reward: null, rewards: {}, error: error.message, network }
  }
}

type VerifierOptions = {
  mode: VerifyMode
  base: BaseFilesystem
  /** Opens the uploads for one attempt. Their streams can be read only once. */
  openUploads: () => SandboxUpload[]
  /** The agent's files that reach the tests through the submission guard. */
  submission: { from: StoppedSandbox | undefined; paths: readonly string[]; startupFiles: readonly string[] }
}

async function runVerifier(
  context: StepContext,
  environment: RunningEnvironment,
  step: TaskStep,
  { mode, base, openUploads, submission }: VerifierOptions,
): Promise<StepVerdict> {
  const { verifier } = step
  const user = mode === 'grader' ? 0 : verifier.user
  const env = fillEnv(verifier.env, context.request.variables)
  const home = env.HOME ?? environment.env.HOME ?? environment.image.env.HOME
  const openImage = async () => (await probeSandbox(context, environment, [])).stopped
  const guard = STRICT_MODES.includes(mode)
    ? await guardSubmission({ ...submission, openImage }, { user: user ?? environment.user, home })
    : { env: {}, uploads: [] }
  const tests = await stageTests(context, step, mode)
  const reward = await createRewardMount(context, mode)
  const network = context.openPhaseNetwork(verifier.network, 'verifier')
  const limits = { seconds: verifier.timeoutSec, outputBytes: VERIFIER_OUTPUT_BYTES }
  const { exit, sandbox } = await runInMain(context, environment, 'verifier', {
    sandbox: {
      base,
      uploads: [...openUploads(), ...guard.uploads],
      mounts: [...tests, reward.mount],
      env: { ...env, ...guard.env },
      network,
      limits,
    },
    command: { command: [toTestScript(step)], ...limits, user: user ?? undefined },
  }).finally(() => network.close())
  context.removeLater(sandbox)
  await context.request.onVerified?.(reward.folder)
  const outcome = toStepOutcome(exit, await readReward(reward.folder))
  return { verifier: exit, network: network.summary(), ...(await addFailedTests(context, outcome)) }
}

/** Adds the failed tests to the outcome of a step without a full reward, from the verifier's output. */
async function addFailedTests(context: StepContext, outcome: ReturnType<typeof toStepOutcome>) {
  if (outcome.reward !== null && outcome.reward >= 1) return outcome
  const failedTests = await readFailedTests(context.outputFile('verifier'))
  return failedTests.length === 0 ? outcome : { ...outcome, failedTests }
}

/** Returns the path of the test script in the sandbox. Images that contain the tests have it at Harbor's path. */
function toTestScript({ verifier }: TaskStep): string {
  const script = verifier.testScript ?? 'tests/test.sh'
  const folder = verifier.testFolders.findLast((candidate) => verifier.testScript?.startsWith(`${candidate}/`))
  return script.replace(folder ?? 'tests', '/tests')
}

/** Stages the tests and returns their mount. Returns none if the verifier's image contains the tests. */
async function stageTests(context: StepContext, { verifier }: TaskStep, mode: VerifyMode): Promise<Mount[]> {
  if (verifier.testFolders.length === 0) return []
  const target = join(context.folder, 'tests')
  const readers = mode === 'grader' ? 'root' : 'all'
  const source = await stageFolders(context.request.folder, verifier.testFolders, target, readers)
  return [{ kind: 'folder', source, target: '/tests', readOnly: true }]
}

/** Creates the folder for the verifier's reward. In mode `grader` only root can write to it. */
async function createRewardMount(context: StepContext, mode: VerifyMode): Promise<{ folder: string; mount: Mount }> {
  const folder = await mkdtemp(join(context.folder, 'verifier-'))
  await chmod(folder, mode === 'grader' ? 0o700 : 0o777)
  return { folder, mount: { kind: 'folder', source: folder, target: '/logs/verifier', readOnly: false } }
}

/**
 * Verifies in the agent's sandbox while its processes run: for tasks whose work is a process. Least trustworthy mode: used
 * only when no stricter mode works.
 */
export async function verifyLive(context: StepContext, running: RunningSandbox, step: TaskStep): Promise<StepVerdict> {
  const { verifier } = step
  const network = toNoNetworkRecord(verifier.network)
  const copied = await copyTests(context, running, step)
  if (copied.code !== 0)
    return { verifier: await running.end(copied), reward: null, rewards: {}, error: TESTS_NOT_COPIED, network }
  const ran = await running.exec('verifier', {
    command: [toTestScript(step)],
    seconds: verifier.timeoutSec,
    outputBytes: VERIFIER_OUTPUT_BYTES,
    env: fillEnv(verifier.env, context.request.variables),
    user: verifier.user ?? undefined,
  })
  const exit = await running.end(ran)
  const reward = await collectReward(context, running.sandbox.stopped)
  return { verifier: exit, network, ...(await addFailedTests(context, toStepOutcome(exit, reward))) }
}

const TESTS_NOT_COPIED = "The tests could not be copied into the agent's environment."

const COPY_SECONDS = 60

const COPY_TESTS = `rm -rf /tests /logs/verifier && mkdir -p /tests /logs/verifier && chmod 777 /logs/verifier &&
tar -xf - -C /tests`

/** Copies the tests. Throws SandboxUnavailable if the agent left no environment in which they can run. */
async function copyTests(context: StepContext, running: RunningSandbox, { verifier }: TaskStep): Promise<Exit> {
  const tests = await stageFolders(context.request.folder, verifier.testFolders, join(context.folder, 'tests'))
  const input = await buffer(packPath(tests, { uid: 0, writableByAll: false }))
  const command = ['sh', '-c', COPY_TESTS]
  const copied = await running.exec('put-tests', { command, user: 0, seconds: COPY_SECONDS, input })
  if (copied.code === 0 || context.request.harness.isControl) return copied
  throw new SandboxUnavailable(TESTS_NOT_COPIED)
}

const REWARD_CAPS = { files: 100, bytes: 16 * 1024 * 1024 }

/** Collects the reward from outside, after all processes have ended. */
async function collectReward(context: StepContext, from: StoppedSandbox): Promise<RewardResult> {
  const found = await from.collect('/logs/verifier', REWARD_CAPS)
  if (!found) return { kind: 'missing' }
  const folder = join(context.folder, 'reward')
  try {
    await unpack(found.tar, folder, { links: 'inside' })
  } catch (error) {
    if (!(error instanceof ArchiveRefused)) throw error
    return { kind: 'refused', file: error.path ?? '/logs/verifier', reason: 'not_a_file', message: error.message }
  }
  return readReward(join(folder, 'verifier'))
}

/** Lines in which common test runners report a test that did not pass. The first group is the name of the test. */
const FAILED_TEST_LINES: readonly RegExp[] = [
  /^not passed: '(.+)'$/, // Assay's grader
  /^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$/, // pytest
  /^(?:FAIL|ERROR): (\S+ \(.+\))$/, // unittest
  /^not ok \d+ -? ?(.+)$/, // TAP: node, bats, prove
  /^[✖✕×] (.+?)(?: \(?[\d.]+ ?m?s\)?)?$/, // node, jest, vitest
  /^FAIL\s+(\S+ > .+)$/, // vitest
  /^--- FAIL: (\S+)/, // go
  /^test (\S+) \.\.\. FAILED$/, // cargo
  /^\[ERROR\] +(\w+\.\w+):\d+/, // maven
  /^\d+\) (\w[\w\\]*::\w+)/, // phpunit
  /^rspec (\S+:\d+)/, // rspec
  /^\d+ - (\S+) \(Failed\)$/, // ctest
]

/** Lines that node's reporters print in addition to the tests. */
const NOT_A_TEST = /^failing tests:$/

/** Limits of the list of failed tests, which is read from untrusted output. */
const NAMES_MAX = 50
const NAME_LENGTH_MAX = 200
const LINE_LENGTH_MAX = 2000

/** Returns the names of failed tests in the output of a verifier, in order and without repetition. The text is untrusted. */
export function listFailedTests(output: string): string[] {
  const names = new Set<string>()
  for (const line of stripVTControlCharacters(output).split('\n')) {
    const name = line.length > LINE_LENGTH_MAX ? undefined : findFailedTest(line.trim())
    if (name !== undefined) names.add(printable(name).slice(0, NAME_LENGTH_MAX))
    if (names.size >= NAMES_MAX) break
  }
  return [...names]
}

function findFailedTest(line: string): string | undefined {
  if (/^not ok .*# (?:skip|todo)\b/i.test(line)) return undefined
  for (const pattern of FAILED_TEST_LINES) {
    const name = pattern.exec(line)?.[1]?.trim()
    if (name && !NOT_A_TEST.test(name)) return name
  }
  return undefined
}

/** Number of bytes at the end of the output that are searched for failed tests. */
const OUTPUT_BYTES_MAX = 1024 * 1024

/** Reads the failed tests from the end of a log file. Returns none if the file does not exist. */
async function readFailedTests(logFile: string): Promise<string[]> {
  const opened = await open(logFile, 'r').catch(() => undefined)
  if (!opened) return []
  await using file = opened
  const { size } = await file.stat()
  const position = Math.max(0, size - OUTPUT_BYTES_MAX)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.min(size, OUTPUT_BYTES_MAX)), { position })
  return listFailedTests(buffer.subarray(0, bytesRead).toString())
}
