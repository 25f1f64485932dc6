import { createReadStream } from 'node:fs'
import { posix } from 'node:path'
import { readReward } from '../harbor/reward.ts'
import type { TaskStep } from '../harbor/task.ts'
import { oracle } from '../harnesses/reference.ts'
import type { BaseFilesystem, Sandbox, SandboxUpload, StoppedSandbox } from '../sandboxes/sandbox.ts'
import type { Taken } from './artifacts.ts'
import type { Bench } from './bench.ts'
import { carriedPaths, isStartupFile, isSystemFolder, isWithin, startupFilesIn } from './carried.ts'
import { NeverReady } from './health.ts'
import { runIn } from './inhabit.ts'
import { troubleOf, type Way, withLeftovers } from './leftovers.ts'
import { SMALL_OUTPUT_BYTES, VERIFIER_OUTPUT_BYTES } from './limits.ts'
import { type NetworkRecord, withoutNetwork } from './network.ts'
import { stepOutcome } from './outcome.ts'
import type { StepRecord, VerifyMode } from './record.ts'
import { verifierSeeds } from './seeds.ts'
import { guardSubmission } from './submission.ts'
import type { Surroundings } from './surroundings.ts'
import { rewardMount, testCommand, testMounts } from './tests.ts'
import { filledEnv } from './variables.ts'

export type Verdict = Pick<StepRecord, 'verifier' | 'reward' | 'rewards' | 'error'> & {
  network: NetworkRecord
  /** Paths outside the working directory that reached the tests. Undefined where there are none to choose. */
  carried?: readonly string[]
}

const NARROWER = {
  snapshot: 'All that the agent left was judged.',
  workspace: 'Only the working folder was judged.',
  image: 'Nothing that the agent left was judged.',
}

const STRICT_MODES: readonly VerifyMode[] = ['grader', 'workspace', 'snapshot']

/** Tests what the agent left, in a sandbox that the agent never was in. All of the agent is dead by now. */
export async function verifyFresh(
  bench: Bench,
  around: Surroundings,
  step: TaskStep,
  left: StoppedSandbox | undefined,
): Promise<Verdict> {
  const { verifyMode } = bench.request
  const mode = verifyMode === 'shared-live' ? 'shared-cold' : verifyMode
  const carried = await pathsToCarry(bench, around, mode, left)
  const startupFiles = await startupFilesToKeep(bench, mode, left, [around.workdir, ...carried])
  const ways = verifierSeeds(mode, { from: left, workdir: around.workdir, carried }).map((seed) => ({
    without: NARROWER[seed.kind],
    run: () => {
      const submission = { from: left, paths: seed.kind === 'workspace' ? seed.paths : [], startupFiles }
      return verifyFrom(bench, around, step, { mode, seed, inserts: () => [], submission })
    },
  }))
  return { ...(await judged(bench, step, ways)), carried: [...new Set([...carried, ...startupFiles])] }
}

/** Returns the startup files in the submission that the reference solution changes, and that therefore are the work. */
async function startupFilesToKeep(
  { request }: Bench,
  mode: VerifyMode,
  left: StoppedSandbox | undefined,
  paths: readonly string[],
): Promise<string[]> {
  if (!left || !STRICT_MODES.includes(mode)) return []
  if (request.harness.id !== oracle.id) return (request.carried ?? []).filter(isStartupFile)
  return startupFilesIn(left.changes(), paths)
}

/** The reference solution shows which paths outside the working directory a task is about. Others bring what it showed. */
async function pathsToCarry(
  { request }: Bench,
  { workdir }: Surroundings,
  mode: VerifyMode,
  left: StoppedSandbox | undefined,
): Promise<string[]> {
  const isNeeded = mode === 'snapshot' || (STRICT_MODES.includes(mode) && isSystemFolder(workdir))
  if (!isNeeded || !left) return []
  if (request.harness.id !== oracle.id)
    return (request.carried ?? []).filter((path) => isSystemFolder(workdir) || !isWithin(path, workdir))
  return (await carriedPaths(left.changes(), workdir)) ?? []
}

/** Tests nothing but the artifacts, in an environment of the verifier's own. They lie where the agent had them. */
export async function verifyApart(
  bench: Bench,
  around: Surroundings,
  step: TaskStep,
  { taken, left }: { taken: Taken[]; left: StoppedSandbox | undefined },
): Promise<Verdict> {
  const artifacts = taken.filter(({ tar }) => tar !== undefined).map(({ path }) => path)
  const startupFiles = await startupFilesToKeep(bench, 'workspace', left, artifacts)
  const verify = (given: Taken[]) =>
    verifyFrom(bench, around, step, {
      mode: 'workspace',
      seed: { kind: 'image' },
      inserts: () => given.flatMap(insertsOf),
      submission: {
        from: left,
        paths: given.filter(({ tar }) => tar !== undefined).map(({ path }) => path),
        startupFiles,
      },
    })
  const verdict = await judged(bench, step, [
    { without: '', run: () => verify(taken) },
    {
      without: 'Artifacts that cannot be put into the environment of the verifier were not judged.',
      run: async () => verify(await fitting(bench, around, taken)),
    },
    { without: 'No artifact was judged.', run: () => verify([]) },
  ])
  return { ...verdict, carried: startupFiles }
}

const insertsOf = ({ path, tar }: Taken): SandboxUpload[] =>
  tar === undefined ? [] : [{ target: posix.dirname(path), tar: createReadStream(tar) }]

const PROBE_SECONDS = 60

/** Starts a sandbox with nothing but the image and these files, and ends it. */
async function startAlone(bench: Bench, around: Surroundings, inserts: SandboxUpload[]): Promise<Sandbox> {
  const limits = { seconds: PROBE_SECONDS, outputBytes: SMALL_OUTPUT_BYTES }
  const network = bench.network({ mode: 'no-network', hosts: [] }, 'verifier')
  const wish = { seed: { kind: 'image' as const }, inserts, mounts: [], env: {}, network, limits }
  return (await runIn(bench, around, 'probe', { wish, exec: { command: ['true'], ...limits } })).sandbox
}

const openImage = async (bench: Bench, around: Surroundings): Promise<StoppedSandbox> =>
  (await startAlone(bench, around, [])).stopped

/** Those with which a sandbox can be started, each tried alone. */
async function fitting(bench: Bench, around: Surroundings, taken: Taken[]): Promise<Taken[]> {
  const fit: Taken[] = []
  for (const one of taken) {
    const trouble = await troubleOf(bench, async () => {
      bench.removeLater(await startAlone(bench, around, insertsOf(one)))
    })
    if (trouble === undefined) fit.push(one)
  }
  return fit
}

/** An environment that never gets ready for the tests is no verdict; whose doing it is, is found out later. */
async function judged(bench: Bench, step: TaskStep, [first, ...others]: Way<Verdict>[]): Promise<Verdict> {
  if (first === undefined) throw new Error('There is no way to verify.')
  try {
    return await withLeftovers(bench, first.run, others)
  } catch (error) {
    if (!(error instanceof NeverReady) || bench.request.harness.isControl) throw error
    const network = withoutNetwork(step.verifier.network)
    return { verifier: null, reward: null, rewards: {}, error: error.message, network }
  }
}

type Beginning = {
  mode: VerifyMode
  seed: BaseFilesystem
  inserts: () => SandboxUpload[]
  /** The agent's files that reach the tests through a filter. */
  submission: { from: StoppedSandbox | undefined; paths: readonly string[]; startupFiles: readonly string[] }
}

async function verifyFrom(bench: Bench, around: Surroundings, step: TaskStep, beginning: Beginning): Promise<Verdict> {
  const { mode, seed, submission } = beginning
  const { verifier } = step
  const user = mode === 'grader' ? 0 : verifier.user
  const env = filledEnv(verifier.env, bench.request.variables)
  const home = env.HOME ?? around.env.HOME ?? around.image.env.HOME
  const guard = STRICT_MODES.includes(mode)
    ? await guardSubmission(
        { ...submission, openImage: () => openImage(bench, around) },
        { user: user ?? around.user, home },
      )
    : { env: {}, inserts: [] }
  const tests = await testMounts(bench, step, mode)
  const reward = await rewardMount(bench, mode)
  const network = bench.network(verifier.network, 'verifier')
  const limits = { seconds: verifier.timeoutSec, outputBytes: VERIFIER_OUTPUT_BYTES }
  const { exit, sandbox } = await runIn(bench, around, 'verifier', {
    wish: {
      seed,
      inserts: [...beginning.inserts(), ...guard.inserts],
      mounts: [...tests, reward.mount],
      env: { ...env, ...guard.env },
      network,
      limits,
    },
    exec: { command: [testCommand(step)], ...limits, ...(user === null ? {} : { user }) },
  }).finally(() => network.close())
  bench.removeLater(sandbox)
  await bench.request.onVerified?.(reward.folder)
  return { verifier: exit, network: network.summary(), ...stepOutcome(exit, await readReward(reward.folder)) }
}
