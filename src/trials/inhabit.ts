import type { Exit, Sandbox } from '../sandboxes/sandbox.ts'
import type { Bench } from './bench.ts'
import { patienceSec } from './health.ts'
import { SMALL_OUTPUT_BYTES } from './limits.ts'
import { type ExecWish, type Living, livingOf } from './living.ts'
import { isInhabited, type MainWish, mainSpec, type Surroundings } from './surroundings.ts'
import { composeVariables, filled } from './variables.ts'

const START_SECONDS = 60

/** What Harbor keeps a container alive with. An entrypoint gets it as its arguments. */
const SLEEP = ['sh', '-c', 'sleep infinity']

/** Starts the environment itself, as its author would have it run, and waits until it is healthy. */
export async function inhabit(bench: Bench, around: Surroundings, name: string, wish: MainWish): Promise<Living> {
  const { environment, main } = around
  const { healthcheck } = environment
  const compose = main?.healthcheck && main.healthcheck.kind !== 'none' ? main.healthcheck : null
  const waiting = [healthcheck, compose].reduce((sum, each) => sum + (each ? patienceSec(each) : 0), START_SECONDS)
  const limits = { seconds: wish.limits.seconds + waiting, outputBytes: SMALL_OUTPUT_BYTES }
  const sandbox = await bench.start(`environment-${name}`, {
    ...mainSpec(around, { ...wish, env: {}, limits }),
    command: residentCommand(bench, around),
    execs: true,
    user: around.user,
    input: '',
  })
  const env = { ...around.env, ...wish.network.env, ...wish.env }
  const living = livingOf(bench, sandbox, { user: around.user, workdir: around.workdir, env })
  if (compose) {
    const command = compose.kind === 'exec' ? compose.test : ['sh', '-c', compose.test[0] ?? '']
    await living.healthy('the environment', command, compose)
  }
  if (healthcheck) await living.healthy('the environment', ['bash', '-c', healthcheck.command], healthcheck)
  return living
}

/** Null: there is nothing to run but what is brought. */
function residentCommand(bench: Bench, { main, image }: Surroundings): string[] | null {
  const variables = composeVariables(bench.request.variables)
  const entrypoint = main?.entrypoint?.map((word) => filled(word, variables)) ?? image.entrypoint
  const command = main?.command?.map((word) => filled(word, variables))
  return entrypoint.length === 0 && !command ? null : [...entrypoint, ...(command ?? SLEEP)]
}

/** Runs one command in a sandbox of its own: as its first process, or in the inhabited environment. It is dead then. */
export async function runIn(
  bench: Bench,
  around: Surroundings,
  name: string,
  { wish, exec, onStarted = () => {} }: { wish: MainWish; exec: ExecWish; onStarted?: () => void },
): Promise<{ exit: Exit; sandbox: Sandbox }> {
  if (isInhabited(around)) {
    const living = await inhabit(bench, around, name, wish)
    onStarted()
    return { exit: await living.end(await living.exec(name, exec)), sandbox: living.sandbox }
  }
  const limits = { seconds: exec.seconds, outputBytes: exec.outputBytes ?? SMALL_OUTPUT_BYTES }
  const sandbox = await bench.start(name, {
    ...mainSpec(around, { ...wish, limits }),
    command: exec.command,
    execs: false,
    user: exec.user ?? around.user,
    input: exec.input ?? '',
  })
  onStarted()
  const exit = await sandbox.exited
  bench.request.signal.throwIfAborted()
  return { exit, sandbox }
}
