import { join } from 'node:path'
import { openFolderSource } from '../src/harbor/folder-source.ts'
import { readTask } from '../src/harbor/read-task.ts'
import { oracle } from '../src/harnesses/reference.ts'
import { runTrial } from '../src/trials/run-trial.ts'
import { testKubeconfig } from '../test/support/sandboxes/kubernetes-subject.ts'
import { writeTask } from '../test/support/trials/trial-runner.ts'
import { clusterContenders, contenders, type SandboxContender } from './contenders.ts'
import { cpuMs } from './cpu.ts'
import { atLeast, atMost, type BenchMeasurement, type MeasureRow, median, note, times } from './measure.ts'

const ROUNDS = 5
const TRIALS = 10
/** Warm-up trials. A worker runs for days, so the cost of just-in-time compilation is excluded. */
const WARM_UP = 20

/** Compares a small reference-solution trial with a bare container, including daemon and sandboxes. */
export const trialsBench: BenchMeasurement = {
  name: 'Trials',
  about:
    'CPU time of the entire machine (engine, daemon, sandboxes) per small oracle trial with fresh verification, compared with a bare cycle of the same runtime in the same run, alternating. Only meaningful on an idle machine.',
  run: () => measureAll(contenders()),
}

/** Does the same in the cluster of `ASSAY_TEST_KUBECONFIG`, compared with a bare pod. */
export const clusterTrialsBench: BenchMeasurement = {
  name: 'Trials on a cluster',
  about:
    'CPU time of the entire machine, including control plane and kubelet, per small oracle trial in Kubernetes, compared with a bare cycle that creates a pod, runs `true` in it and deletes it. Only meaningful on an idle machine that is also the only node.',
  run: async () => (testKubeconfig === undefined ? [] : measureAll(clusterContenders(testKubeconfig))),
}

async function measureAll(all: AsyncGenerator<SandboxContender>): Promise<MeasureRow[]> {
  const rows: MeasureRow[] = []
  for await (const contender of all) rows.push(...(await measure(contender)))
  return rows
}

async function measure(contender: SandboxContender): Promise<MeasureRow[]> {
  const trial = await tinyTrial(contender)
  await inTurn(WARM_UP, trial)
  await contender.bare(1)
  const bare: number[] = []
  const ours: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    bare.push((await cpuMs(() => contender.bare(TRIALS))) / TRIALS)
    ours.push((await cpuMs(() => inTurn(TRIALS, trial))) / TRIALS)
  }
  const [bareMs, ourMs] = [median(bare), median(ours)]
  return [
    atMost(`${contender.name}: CPU of a trial, ratio to a bare cycle`, ourMs / bareMs, contender.barTimes, times),
    note(`${contender.name}: CPU of a trial, of a bare cycle`, `${ourMs.toFixed(0)} ms, ${bareMs.toFixed(0)} ms`),
    ...(await throughput(contender, trial)),
    ...(await overhead(contender)),
  ]
}

const PARALLEL = 4

async function throughput(contender: SandboxContender, trial: () => Promise<void>): Promise<MeasureRow[]> {
  const ours = await perMinute(() => inParallel(PARALLEL, () => inTurn(TRIALS, trial)), PARALLEL * TRIALS)
  const what = `${contender.name}: trials per minute at parallel ${PARALLEL}`
  if (contender.barThroughput === undefined) return [note(what, ours.toFixed(0))]
  const bare = await perMinute(() => inParallel(PARALLEL, () => contender.bare(TRIALS)), PARALLEL * TRIALS)
  return [
    atLeast(`${what}, ratio to bare cycles`, ours / bare, contender.barThroughput, times),
    note(what, `${ours.toFixed(0)} (bare cycles: ${bare.toFixed(0)})`),
  ]
}

/** A task that takes a minute, in which the engine's overhead must be negligible. */
async function overhead(contender: SandboxContender): Promise<MeasureRow[]> {
  const OWN_SECONDS = 60
  const trial = await tinyTrial(contender, `sleep ${OWN_SECONDS}`)
  const seconds = (await elapsedMs(trial)) / 1000
  const what = `${contender.name}: wall time of a trial whose task takes ${OWN_SECONDS} s`
  return [atMost(what, seconds / OWN_SECONDS, contender.barWall, (ratio) => `${ratio.toFixed(4)} ×`)]
}

async function tinyTrial({ provider, folder }: SandboxContender, first = 'true'): Promise<() => Promise<void>> {
  const taskFolder = writeTask(join(folder, `tiny-${first.replaceAll(' ', '-')}`), {
    'solution/solve.sh': `#!/bin/bash\n${first}\necho hello > /app/hello.txt\n`,
    'task.toml': tinyToml,
  })
  const { task, digest } = await readTask(await openFolderSource(taskFolder))
  return async () => {
    const record = await runTrial(provider, {
      task,
      digest,
      folder: taskFolder,
      outputFolder: folder,
      variables: {},
      harness: oracle,
      verifyMode: 'workspace',
      signal: new AbortController().signal,
      onPhase: () => {},
    })
    if (record.reward !== 1) throw new Error(`The trial scored ${record.reward}: ${record.error}`)
  }
}

const tinyToml = `schema_version = "1.4"
[task]
name = "assay/tiny"
[environment]
docker_image = "debian:bookworm-slim"
workdir = "/app"
[agent]
timeout_sec = 120
[verifier]
timeout_sec = 60
`

async function inTurn(count: number, work: () => Promise<void>): Promise<void> {
  for (let done = 0; done < count; done++) await work()
}

const inParallel = async (count: number, work: () => Promise<void>): Promise<void> => {
  await Promise.all(Array.from({ length: count }, work))
}

const perMinute = async (work: () => Promise<void>, count: number): Promise<number> =>
  (count * 60_000) / (await elapsedMs(work))

async function elapsedMs(work: () => Promise<void>): Promise<number> {
  const started = performance.now()
  await work()
  return performance.now() - started
}
