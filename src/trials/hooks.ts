import { MAIN_SERVICE } from '../harbor/settings.ts'
import type { CollectHook, TaskStep } from '../harbor/task.ts'
import type { Exit, Sandbox } from '../sandboxes/sandbox.ts'
import { toWholeBase } from './base-filesystem.ts'
import { type RunningEnvironment, runInMain } from './environment.ts'
import { SMALL_OUTPUT_BYTES } from './limits.ts'
import type { HookRecord } from './record.ts'
import type { RunningSandbox } from './running-sandbox.ts'
import { SERVICE_NAME_LENGTH_MAX } from './sidecars.ts'
import type { StepContext } from './step-context.ts'

const isMainHook = ({ service }: CollectHook): boolean => service === MAIN_SERVICE

export const listMainHooks = ({ verifier }: TaskStep): CollectHook[] => verifier.collect.filter(isMainHook)

/** Runs hooks in the agent's sandbox while it runs. */
export async function runHooksInside(
  context: StepContext,
  running: RunningSandbox,
  hooks: CollectHook[],
): Promise<HookRecord[]> {
  const records: HookRecord[] = []
  for (const hook of hooks)
    records.push(await recordHook(context, hook, () => running.exec('collect', toCommand(hook, 'bash'))))
  return records
}

/** Runs hooks in new sandboxes: the first starts from the agent's files, each other from those of the hook before it. */
export async function runHooksAfterwards(
  context: StepContext,
  environment: RunningEnvironment,
  hooks: CollectHook[],
  agentSandbox: Sandbox | undefined,
): Promise<{ records: HookRecord[]; sandbox: Sandbox | undefined }> {
  const records: HookRecord[] = []
  let latest = agentSandbox
  for (const hook of hooks) {
    const record = await recordHook(context, hook, async () => {
      const limits = { seconds: hook.timeoutSec, outputBytes: SMALL_OUTPUT_BYTES }
      const network = context.openPhaseNetwork({ mode: 'no-network', hosts: [] }, 'agent')
      const { exit, sandbox } = await runInMain(context, environment, 'collect', {
        sandbox: { base: toWholeBase(latest?.stopped), uploads: [], mounts: [], env: {}, network, limits },
        command: toCommand(hook, 'bash'),
      })
      latest = sandbox
      return exit
    })
    records.push(record)
  }
  return { records, sandbox: latest }
}

/** Runs the hooks of sidecars. They run in the sidecars, which have not been stopped yet. */
export async function runSidecarHooks(
  context: StepContext,
  { sidecars }: RunningEnvironment,
  step: TaskStep,
): Promise<HookRecord[]> {
  const records: HookRecord[] = []
  for (const hook of step.verifier.collect.filter((each) => !isMainHook(each))) {
    const sidecar = sidecars.find(({ service }) => service.name === hook.service)
    const record = await recordHook(context, hook, async () => {
      if (!sidecar || sidecar.exit) throw new Error('The service is no longer running.')
      return sidecar.running.exec(`collect-${hook.service.slice(0, SERVICE_NAME_LENGTH_MAX)}`, toCommand(hook, 'sh'))
    })
    records.push(record)
  }
  return records
}

const toCommand = ({ command, user, timeoutSec }: CollectHook, shell: 'sh' | 'bash') => ({
  command: [shell, '-c', command],
  seconds: timeoutSec,
  user: user ?? undefined,
})

/** Records failures of a hook and continues, as Harbor does. Aborts are thrown. */
async function recordHook(
  context: StepContext,
  { service, command }: CollectHook,
  run: () => Promise<Exit>,
): Promise<HookRecord> {
  try {
    return { service, command, exit: await run(), error: null }
  } catch (error) {
    context.request.signal.throwIfAborted()
    return { service, command, exit: null, error: error instanceof Error ? error.message : String(error) }
  }
}
