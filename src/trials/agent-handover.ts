import {
  type Exit,
  killOnAbort,
  type Mount,
  type Sandbox,
  type SandboxProvider,
  type SandboxSpec,
} from '../sandboxes/sandbox.ts'

/** Passes a running agent from a process that died, or that stops, to the next one that runs the trial. */
export type AgentHandover = {
  /** The agent that an earlier process left in a sandbox. Undefined if the agent must be started. */
  agent: AdoptableAgent | undefined
  /** Stores that another process can adopt the agent in this sandbox. Does not fail: it is only needed if this one dies. */
  onAdoptable(sandboxId: string): Promise<void>
  /** Returns true if the trial was aborted because another process continues it. */
  isTakenOver(abortReason: unknown): boolean
}

type AdoptableAgent = {
  sandboxId: string
  /** Time that the agent has used. */
  elapsedMs: number
  /** Time during which no process attended the agent. It does not count, because the agent could not call its model. */
  unattendedMs: number
}

/** Thrown when the agent that an earlier process left cannot be continued. The trial must start again without its sandbox. */
export class AgentLost extends Error {
  override name = 'AgentLost'
}

/**
 * Returns true if another process could continue the sandbox: everything that it uses outlives this process. Connections
 * to the egress proxy, staged folders and sidecars do not.
 */
export const isAdoptable = (
  { network, ports, mounts }: Pick<SandboxSpec, 'network' | 'ports' | 'mounts'>,
  bundleMounts: readonly Mount[],
): boolean =>
  network === null &&
  ports.every(({ onPipe }) => onPipe !== undefined) &&
  mounts.every((mount) => mount.kind === 'tmpfs' || bundleMounts.includes(mount))

/** Starts the sandbox of an agent, or adopts the one in which an earlier process left it. Throws AgentLost. */
export async function startOrAdopt(
  provider: SandboxProvider,
  handover: AgentHandover,
  requested: SandboxSpec,
  signal: AbortSignal,
): Promise<Sandbox> {
  signal.throwIfAborted()
  const spec = { ...requested, isAdoptable: true }
  const sandbox = handover.agent ? await adopt(provider, handover.agent, spec) : await provider.start(spec)
  const { leave, kill, exited } = sandbox
  const stop = (): Promise<void> => (leave && handover.isTakenOver(signal.reason) ? leave() : kill())
  killOnAbort({ kill: stop, exited }, signal)
  return sandbox
}

/**
 * Adopts a sandbox. If it disappears later, or if the agent fails, the cause is unknown: the former process may have ended
 * it, or the agent may have lost its connection while there was no process. The agent is then started again.
 */
async function adopt(
  provider: SandboxProvider,
  { unattendedMs }: AdoptableAgent,
  { limits, ...spec }: SandboxSpec,
): Promise<Sandbox> {
  const seconds = limits.seconds + unattendedMs / 1000
  const sandbox = await provider.adopt?.({ ...spec, limits: { ...limits, seconds } })
  if (!sandbox) throw new AgentLost('The sandbox of the agent no longer exists.')
  const observeExit = async (): Promise<Exit> => {
    const exit = await sandbox.exited.catch((error: unknown) => {
      throw new AgentLost('The sandbox of the agent was lost.', { cause: error })
    })
    if (exit.code !== 0 && exit.limit === null)
      throw new AgentLost('The agent failed after another process adopted it.')
    return { ...exit, seconds: Math.max(0, exit.seconds - unattendedMs / 1000) }
  }
  const exited = observeExit()
  exited.catch(() => {}) // reported when it is awaited
  return { ...sandbox, exited }
}
