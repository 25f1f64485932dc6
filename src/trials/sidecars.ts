import { orderServices } from '../harbor/compose.ts'
import type { ComposeService } from '../harbor/task.ts'
import { type Exit, type Image, type SandboxNetwork, SandboxUnsupported } from '../sandboxes/sandbox.ts'
import { toSidecarLimits } from './limits.ts'
import type { SidecarRecord } from './record.ts'
import { EnvironmentNotReady, type RunningSandbox, toRunningSandbox } from './running-sandbox.ts'
import type { StepContext } from './step-context.ts'
import { listUploads, stageServiceFiles } from './task-files.ts'
import { addComposeVariables, fillEnv, fillTemplate } from './variables.ts'

/** A service of the task besides `main`. `exit` is null while it runs, and stays null if the trial ended it. */
export type Sidecar = {
  service: ComposeService
  running: RunningSandbox
  exit: Exit | null
  /** Resolves when the healthcheck has succeeded. Undefined until it is first awaited. */
  healthy: Promise<void> | undefined
}

type SidecarOptions = {
  services: ComposeService[]
  /** `main` may wait for sidecars too. */
  main: ComposeService | null
  images: Map<string, Image>
  network: SandboxNetwork
  /** Maximum lifetime of the sidecars. */
  secondsMax: number
}

/**
 * Starts the sidecars, each after its dependencies, and waits until those with a healthcheck are healthy, like
 * `docker compose up --wait`.
 */
export async function startSidecars(context: StepContext, options: SidecarOptions): Promise<Sidecar[]> {
  const sidecars: Sidecar[] = []
  const names = new Set(options.services.map(({ name }) => name))
  // Dependencies on `main` cannot be awaited: it starts later.
  const withoutMain = options.services.map((service) => ({
    ...service,
    dependsOn: service.dependsOn.filter((dependency) => names.has(dependency.service)),
  }))
  for (const service of orderServices(withoutMain) ?? []) {
    await awaitDependencies(context, service, sidecars)
    sidecars.push(await startSidecar(context, service, options))
  }
  if (options.main) await awaitDependencies(context, options.main, sidecars)
  for (const sidecar of sidecars) await awaitHealth(sidecar)
  return sidecars
}

async function awaitDependencies(
  context: StepContext,
  { name, dependsOn }: ComposeService,
  sidecars: Sidecar[],
): Promise<void> {
  for (const { service, condition } of dependsOn) {
    const sidecar = sidecars.find((each) => each.service.name === service)
    if (!sidecar)
      throw new SandboxUnsupported(`The service ${name} waits for ${service}, which is not started before it.`)
    if (condition === 'healthy') await awaitHealth(sidecar)
    if (condition !== 'completed') continue
    const { code, limit } = await sidecar.running.sandbox.exited
    context.request.signal.throwIfAborted()
    if (code !== 0)
      throw new EnvironmentNotReady(`The service ${service} did not complete: ${limit ?? `code ${code}`}.`)
  }
}

async function startSidecar(
  context: StepContext,
  service: ComposeService,
  { images, network, secondsMax }: SidecarOptions,
): Promise<Sidecar> {
  const { name, user, workdir } = service
  const image = images.get(name)
  if (!image) throw new Error(`The service ${name} has no image.`)
  const variables = addComposeVariables(context.request.variables)
  const files = await stageServiceFiles(context, service)
  const baseFilesystem = { kind: 'image' } as const
  const env = fillEnv(service.env, variables)
  const sandbox = await context.startSandbox(`sidecar-${name.slice(0, SERVICE_NAME_LENGTH_MAX)}`, {
    image,
    baseFilesystem,
    uploads: listUploads(files, baseFilesystem),
    command: buildCommand(service, image, (words) => words.map((word) => fillTemplate(word, variables))),
    usesExec: true,
    user,
    workdir,
    env,
    mounts: files.mounts,
    network: service.network === 'none' ? null : { sandboxNetwork: network, names: listNames(service) },
    ports: [],
    limits: toSidecarLimits(service, secondsMax),
    input: '',
  })
  const running = toRunningSandbox(context, sandbox, { user, workdir, env })
  const sidecar: Sidecar = { service, running, exit: null, healthy: undefined }
  sandbox.exited.then(
    (exit) => {
      sidecar.exit = exit
    },
    () => {},
  )
  return sidecar
}

/** Service names are cut to this length in file names. */
export const SERVICE_NAME_LENGTH_MAX = 60

/** Builds the command of a sidecar. As in Docker, an entrypoint of the compose file also replaces the image's command. */
function buildCommand(
  service: ComposeService,
  image: Image,
  fill: (words: NonNullable<ComposeService['command']>) => string[],
): string[] {
  if (!service.entrypoint && image.isCommandUnknown)
    throw new SandboxUnsupported(
      `The service ${service.name} requires an entrypoint in docker-compose.yaml: this sandbox cannot read that of the image. In Kubernetes, an operator can set a registry instead, to which workers copy the image.`,
    )
  const entrypoint = service.entrypoint ? fill(service.entrypoint) : image.entrypoint
  const fallback = service.entrypoint ? [] : image.command
  const command = [...entrypoint, ...(service.command ? fill(service.command) : fallback)]
  if (command.length === 0) throw new SandboxUnsupported(`The service ${service.name} has nothing to run.`)
  return command
}

const listNames = ({ hostname, name, aliases }: ComposeService): string[] => [
  ...new Set([...(hostname ? [hostname] : []), name, ...aliases]),
]

/** Runs the healthcheck once; later callers wait for the same result. */
function awaitHealth(sidecar: Sidecar): Promise<void> {
  const { service, running } = sidecar
  const { healthcheck } = service
  if (healthcheck === null || healthcheck.kind === 'none') return Promise.resolve()
  const command = healthcheck.kind === 'exec' ? healthcheck.test : ['sh', '-c', healthcheck.test[0] ?? '']
  sidecar.healthy ??= running.awaitHealthy(`the service ${service.name}`, command, healthcheck)
  return sidecar.healthy
}

/** Kills the sidecars that still run; their records have no exit. Their files can be collected afterwards. */
export async function stopSidecars(context: StepContext, sidecars: Sidecar[]): Promise<void> {
  const running = sidecars.filter(({ exit }) => exit === null)
  await Promise.all(
    running.map(async (sidecar) => {
      await sidecar.running.sandbox.kill()
      await sidecar.running.sandbox.exited.catch(() => {}) // The verdict does not depend on it.
      sidecar.exit = null
    }),
  )
  context.request.signal.throwIfAborted()
}

export const toSidecarRecords = (sidecars: Sidecar[]): SidecarRecord[] =>
  sidecars.map(({ service, exit }) => ({ name: service.name, exit }))
