import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { unpack } from '../harbor/archive.ts'
import { ArchiveRefused } from '../harbor/archive-refused.ts'
import { type RewardResult, readReward } from '../harbor/reward.ts'
import type { TaskStep } from '../harbor/task.ts'
import { type Exit, SandboxUnavailable, type StoppedSandbox } from '../sandboxes/sandbox.ts'
import type { Bench } from './bench.ts'
import { VERIFIER_OUTPUT_BYTES } from './limits.ts'
import type { Living } from './living.ts'
import { withoutNetwork } from './network.ts'
import { stepOutcome } from './outcome.ts'
import { stage } from './stage.ts'
import { tarOf } from './tar.ts'
import { testCommand } from './tests.ts'
import { filledEnv } from './variables.ts'
import type { Verdict } from './verify.ts'

const PUT_SECONDS = 60

const PUT_TESTS = `rm -rf /tests /logs/verifier && mkdir -p /tests /logs/verifier && chmod 777 /logs/verifier &&
tar -xf - -C /tests`

/**
 * Tests where the agent was, with whatever it left running: for tasks whose work is a process. Nothing here can be believed
 * more than the agent, so no other mode must fit before this one is used.
 */
export async function verifyLive(bench: Bench, living: Living, step: TaskStep): Promise<Verdict> {
  const { verifier } = step
  const nothing = { reward: null, rewards: {}, network: withoutNetwork(verifier.network) }
  const put = await putTests(bench, living, step)
  if (put.code !== 0) return { ...nothing, verifier: await living.end(put), error: NOT_PUT }
  const exec = {
    command: [testCommand(step)],
    seconds: verifier.timeoutSec,
    outputBytes: VERIFIER_OUTPUT_BYTES,
    env: filledEnv(verifier.env, bench.request.variables),
    ...(verifier.user === null ? {} : { user: verifier.user }),
  }
  const exit = await living.end(await living.exec('verifier', exec))
  const reading = await rewardIn(bench, living.sandbox.stopped)
  return { verifier: exit, network: withoutNetwork(verifier.network), ...stepOutcome(exit, reading) }
}

const NOT_PUT = 'The tests could not be put into the environment of the agent.'

/** Throws SandboxUnavailable where the agent left nothing that they could be run in. */
async function putTests(bench: Bench, living: Living, { verifier }: TaskStep): Promise<Exit> {
  const tests = await stage(bench.request.folder, verifier.testFolders, join(bench.folder, 'tests'))
  const input = await buffer(tarOf(tests, { uid: 0, open: false }))
  const command = ['sh', '-c', PUT_TESTS]
  const put = await living.exec('put-tests', { command, user: 0, seconds: PUT_SECONDS, input })
  if (put.code === 0 || bench.request.harness.isControl) return put
  throw new SandboxUnavailable(NOT_PUT)
}

const CAPS = { files: 100, bytes: 16 * 1024 * 1024 }

/** Taken from outside, when nothing runs in there any more. */
async function rewardIn(bench: Bench, remains: StoppedSandbox): Promise<RewardResult> {
  const found = await remains.collect('/logs/verifier', CAPS)
  if (!found) return { kind: 'missing' }
  const folder = join(bench.folder, 'reward')
  try {
    await unpack(found.tar, folder, { links: 'inside' })
  } catch (error) {
    if (!(error instanceof ArchiveRefused)) throw error
    return { kind: 'refused', file: error.path ?? '/logs/verifier', reason: 'not_a_file', message: error.message }
  }
  return readReward(join(folder, 'verifier'))
}
