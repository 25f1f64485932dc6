import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { readReward } from '../harbor/reward.ts'
import type { Step } from '../harbor/task.ts'
import type { Image, Remains, Seed } from '../sandboxes/sandbox.ts'
import type { Bench } from './bench.ts'
import { verifierLimits } from './limits.ts'
import { stepOutcome } from './outcome.ts'
import type { StepRecord, VerifyMode } from './record.ts'
import { stage } from './stage.ts'
import { filledEnv } from './variables.ts'

/** Where a cheat would put what makes every later command lie: programs, libraries, and what shells and interpreters read. */
const PROTECTED = [
  '/bin',
  '/sbin',
  '/lib',
  '/lib64',
  '/usr/bin',
  '/usr/sbin',
  '/usr/lib',
  '/usr/lib64',
  '/usr/libexec',
  '/usr/local/bin',
  '/usr/local/sbin',
  '/usr/local/lib',
  '/etc/ld.so.preload',
  '/etc/ld.so.conf',
  '/etc/ld.so.conf.d',
  '/etc/ld.so.cache',
  '/etc/profile',
  '/etc/profile.d',
  '/etc/bash.bashrc',
  '/etc/environment',
  '/root/.bashrc',
  '/root/.profile',
  '/root/.bash_profile',
  '/root/.local',
]
/** What the verifier itself brings, and what an agent could plant for it. */
const OF_THE_VERIFIER = ['/tests', '/logs', '/solution']

/** Tests what the agent left, in a sandbox that the agent never was in. All of the agent is dead by now. */
export async function verify(
  bench: Bench,
  image: Image,
  step: Step,
  remains: Remains | undefined,
): Promise<Pick<StepRecord, 'verifier' | 'reward' | 'rewards' | 'error'>> {
  const { request, folder } = bench
  const tests = await stage(request.folder, step.verifier.testFolders, join(folder, 'tests'))
  const rewardFolder = join(folder, 'verifier')
  await mkdir(rewardFolder)
  await chmod(rewardFolder, 0o777)

  const { exit, sandbox } = await bench.run('verifier', {
    image,
    seed: remains
      ? seedOf(request.verifyMode, remains, workdirOf(request.task.environment.workdir, image))
      : { kind: 'image' },
    command: [testCommand(step)],
    user: step.verifier.user,
    workdir: request.task.environment.workdir,
    env: {
      ...filledEnv(request.task.environment.env, request.variables),
      ...filledEnv(step.verifier.env, request.variables),
    },
    mounts: [
      { source: tests, target: '/tests', readOnly: true },
      { source: rewardFolder, target: '/logs/verifier', readOnly: false },
    ],
    limits: verifierLimits(request.task.environment.resources, step.verifier.timeoutSec),
    input: '',
  })
  bench.removeLater(sandbox)
  return { verifier: exit, ...stepOutcome(exit, await readReward(rewardFolder)) }
}

const testCommand = ({ verifier }: Step): string => {
  const folder =
    verifier.testFolders.findLast((candidate) => verifier.testScript?.startsWith(`${candidate}/`)) ?? 'tests'
  return (verifier.testScript ?? 'tests/test.sh').replace(folder, '/tests')
}

const workdirOf = (workdir: string | null, image: Image): string => workdir ?? image.workdir

function seedOf(mode: VerifyMode, from: Remains, workdir: string): Seed {
  // The root folder as a workspace would be everything: there the next mode is the strictest that means anything.
  if (mode === 'workspace' && workdir !== '/') return { kind: 'workspace', from, paths: [workdir] }
  return {
    kind: 'snapshot',
    from,
    without: mode === 'shared-cold' ? OF_THE_VERIFIER : [...PROTECTED, ...OF_THE_VERIFIER],
  }
}
