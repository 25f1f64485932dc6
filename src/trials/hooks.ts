import { MAIN_SERVICE } from '../harbor/settings.ts'
import type { CollectHook, TaskStep } from '../harbor/task.ts'
import type { Exit, Sandbox } from '../sandboxes/sandbox.ts'
import type { Bench } from './bench.ts'
import { runIn } from './inhabit.ts'
import { SMALL_OUTPUT_BYTES } from './limits.ts'
import type { Living } from './living.ts'
import type { HookRecord } from './record.ts'
import { wholeSeed } from './seeds.ts'
import type { Surroundings } from './surroundings.ts'

const isOfMain = ({ service }: CollectHook): boolean => service === MAIN_SERVICE

export const mainHooks = ({ verifier }: TaskStep): CollectHook[] => verifier.collect.filter(isOfMain)

/** In the environment in which the agent was, while it lives. */
export async function hooksInside(bench: Bench, living: Living, hooks: CollectHook[]): Promise<HookRecord[]> {
  const records: HookRecord[] = []
  for (const hook of hooks) {
    const exec = { ...wordsOf(hook), seconds: hook.timeoutSec }
    records.push(await noted(bench, hook, () => living.exec('collect', exec)))
  }
  return records
}

/** The agent's sandbox is dead: each hook goes on with what was left. What the last one leaves is what counts from then on. */
export async function hooksAfterwards(
  bench: Bench,
  around: Surroundings,
  hooks: CollectHook[],
  left: Sandbox | undefined,
): Promise<{ records: HookRecord[]; left: Sandbox | undefined }> {
  const records: HookRecord[] = []
  let before = left
  for (const hook of hooks) {
    const record = await noted(bench, hook, async () => {
      const limits = { seconds: hook.timeoutSec, outputBytes: SMALL_OUTPUT_BYTES }
      const network = await bench.network({ mode: 'no-network', hosts: [] }, 'agent')
      const wish = { seed: wholeSeed(before?.stopped), inserts: [], mounts: [], env: {}, network, limits }
      const exec = { ...wordsOf(hook), seconds: hook.timeoutSec }
      const { exit, sandbox } = await runIn(bench, around, 'collect', { wish, exec })
      before = sandbox
      return exit
    })
    records.push(record)
  }
  return { records, left: before }
}

/** In the services beside the agent's, which still live. */
export async function sidecarHooks(bench: Bench, around: Surroundings, step: TaskStep): Promise<HookRecord[]> {
  const records: HookRecord[] = []
  for (const hook of step.verifier.collect.filter((each) => !isOfMain(each))) {
    const sidecar = around.sidecars.find(({ service }) => service.name === hook.service)
    const record = await noted(bench, hook, async () => {
      if (!sidecar || sidecar.exit) throw new Error('The service does not run any more.')
      const { user } = hook
      const wish = { command: ['sh', '-c', hook.command], seconds: hook.timeoutSec, ...(user === null ? {} : { user }) }
      return sidecar.living.exec(`collect-${hook.service.slice(0, 60)}`, wish)
    })
    records.push(record)
  }
  return records
}

const wordsOf = ({ command, user }: CollectHook) => ({
  command: ['bash', '-c', command],
  ...(user === null ? {} : { user }),
})

/** Harbor goes on when a hook fails, and so do we; but what an abort stopped is no failure of a hook. */
async function noted(bench: Bench, { service, command }: CollectHook, run: () => Promise<Exit>): Promise<HookRecord> {
  try {
    return { service, command, exit: await run(), error: null }
  } catch (error) {
    bench.request.signal.throwIfAborted()
    return { service, command, exit: null, error: error instanceof Error ? error.message : String(error) }
  }
}
