import { join, posix } from 'node:path'
import { MAIN_SERVICE, SLEEP_COMMAND } from '../harbor/settings.ts'
import type { ComposeService, Environment } from '../harbor/task.ts'
import {
  type BaseFilesystem,
  type Exit,
  type Image,
  type ImageSource,
  type Mount,
  type Sandbox,
  type SandboxNetwork,
  type SandboxSpec,
  SandboxUnsupported,
  type SandboxUpload,
} from '../sandboxes/sandbox.ts'
import { capSeconds, SMALL_OUTPUT_BYTES, toMainLimits, toSidecarLimits } from './limits.ts'
import type { PhaseNetwork } from './network.ts'
import {
  computeHealthcheckSecondsMax,
  type RunningSandbox,
  type SandboxCommand,
  toRunningSandbox,
} from './running-sandbox.ts'
import { type Sidecar, startSidecars } from './sidecars.ts'
import type { NewSandbox, StepContext } from './step-context.ts'
import { listSharedVolumes, listUploads, type ServiceFiles, stageServiceFiles } from './task-files.ts'
import { addComposeVariables, fillEnv, fillTemplate, type TaskVariables } from './variables.ts'

/** Images of an environment: that of `main`, and those of its sidecars by service name. */
export type EnvironmentImages = { main: Image; sidecars: Map<string, Image> }

/** An environment whose sidecars run. Each phase starts its own sandbox of `main` in it. */
export type RunningEnvironment = {
  definition: Environment
  /** The service `main` of the compose file. Null without one. */
  main: ComposeService | null
  image: Image
  network: SandboxNetwork | null
  sidecars: Sidecar[]
  /** Mounts and copied files of the service `main`. */
  files: ServiceFiles
  /** Default working directory of commands. */
  workdir: string
  user: string | number
  env: Record<string, string>
}

export async function prepareImages(context: StepContext, definition: Environment): Promise<EnvironmentImages> {
  const { folder, variables } = context.request
  const sourceInput = { folder, variables: addComposeVariables(variables) }
  const { buildTimeoutSec } = definition
  const limits = toMainLimits(definition.resources, findMainService(definition))
  const main = await context.prepareImage(toEnvironmentSource(definition, sourceInput), {
    timeoutSec: buildTimeoutSec,
    limits,
  })
  const sidecars = new Map<string, Image>()
  for (const service of listSidecarServices(definition)) {
    const source = toServiceSource(service, sourceInput)
    const image = await context.prepareImage(source, {
      timeoutSec: buildTimeoutSec,
      limits: toSidecarLimits(service, buildTimeoutSec),
      needsCommand: service.entrypoint === null,
    })
    sidecars.set(service.name, image)
  }
  return { main, sidecars }
}

/** Starts the sidecars of an environment, and waits until they are ready. */
export async function startEnvironment(
  context: StepContext,
  definition: Environment,
  images: EnvironmentImages,
  sidecarSecondsMax: number,
): Promise<RunningEnvironment> {
  const main = findMainService(definition)
  const services = listSidecarServices(definition)
  const { variables } = context.request
  // Named volumes belong to a sandbox network.
  const hasNamedVolume = main?.mounts.some((mount) => mount.kind === 'volume' && mount.name !== null)
  const needsNetwork = services.length > 0 || hasNamedVolume
  const network = needsNetwork ? await context.openSandboxNetwork() : null
  const environment: RunningEnvironment = {
    definition,
    main,
    image: images.main,
    network,
    sidecars: [],
    files: await stageServiceFiles(context, main),
    workdir: definition.workdir ?? main?.workdir ?? images.main.workdir,
    user: main?.user ?? images.main.user,
    env: {
      ...fillEnv(main?.env ?? [], addComposeVariables(variables)),
      ...fillEnv(definition.env, variables),
    },
  }
  if (network)
    environment.sidecars = await startSidecars(context, {
      services,
      main,
      images: images.sidecars,
      network,
      secondsMax: sidecarSecondsMax,
    })
  return environment
}

export type MainSandboxOptions = {
  base: BaseFilesystem
  uploads: SandboxUpload[]
  mounts: Mount[]
  env: Record<string, string>
  network: PhaseNetwork
  limits: { seconds: number; outputBytes: number }
}

type MainRunOptions = {
  sandbox: MainSandboxOptions
  command: SandboxCommand
  /** Starts a sandbox whose first process is the command. */
  start?: ((spec: NewSandbox) => Promise<Sandbox>) | undefined
  onStarted?: (() => void) | undefined
}

/**
 * Runs one command in a new sandbox of `main` that has ended when this returns. The command is the first process, unless
 * the environment has a process of its own.
 */
export async function runInMain(
  context: StepContext,
  environment: RunningEnvironment,
  name: string,
  options: MainRunOptions,
): Promise<{ exit: Exit; sandbox: Sandbox }> {
  const { command, start = (spec) => context.startSandbox(name, spec) } = options
  if (hasMainProcess(environment)) {
    const running = await startMain(context, environment, name, options.sandbox)
    options.onStarted?.()
    return { exit: await running.end(await running.exec(name, command)), sandbox: running.sandbox }
  }
  const limits = { seconds: command.seconds, outputBytes: command.outputBytes ?? SMALL_OUTPUT_BYTES }
  const sandbox = await start({
    ...toMainSpec(environment, { ...options.sandbox, limits }),
    command: command.command,
    usesExec: false,
    user: command.user ?? environment.user,
    input: command.input ?? '',
  })
  options.onStarted?.()
  const exit = await sandbox.exited
  context.request.signal.throwIfAborted()
  return { exit, sandbox }
}

/** Returns true if `main` runs a process besides the agent or the verifier, or must be healthy before they start. */
export const hasMainProcess = ({ definition, main, image }: RunningEnvironment): boolean =>
  definition.healthcheck !== null ||
  (main?.healthcheck?.kind ?? 'none') !== 'none' ||
  image.entrypoint.length > 0 ||
  main?.command != null ||
  main?.entrypoint != null

/** Time to start the sandbox, in addition to the time limit of its commands. */
const START_SECONDS = 60

/** Starts `main` with the command that its author declared, and waits until it is healthy. */
export async function startMain(
  context: StepContext,
  environment: RunningEnvironment,
  name: string,
  options: MainSandboxOptions,
): Promise<RunningSandbox> {
  const { definition, main, user, workdir } = environment
  const { healthcheck } = definition
  const serviceCheck = main?.healthcheck && main.healthcheck.kind !== 'none' ? main.healthcheck : null
  const healthSeconds =
    (healthcheck ? computeHealthcheckSecondsMax(healthcheck) : 0) +
    (serviceCheck ? computeHealthcheckSecondsMax(serviceCheck) : 0)
  const seconds = START_SECONDS + healthSeconds + options.limits.seconds
  const limits = { seconds, outputBytes: SMALL_OUTPUT_BYTES }
  const sandbox = await context.startSandbox(`environment-${name}`, {
    ...toMainSpec(environment, { ...options, env: {}, limits }),
    command: findMainCommand(context, environment),
    usesExec: true,
    user,
    input: '',
  })
  const env = { ...environment.env, ...options.network.env, ...options.env }
  const running = toRunningSandbox(context, sandbox, { user, workdir, env })
  if (serviceCheck) {
    const command = serviceCheck.kind === 'exec' ? serviceCheck.test : ['sh', '-c', serviceCheck.test[0] ?? '']
    await running.awaitHealthy('the environment', command, serviceCheck)
  }
  if (healthcheck) await running.awaitHealthy('the environment', ['bash', '-c', healthcheck.command], healthcheck)
  return running
}

/** Returns the command of `main`, or null if it has neither an entrypoint nor a command. */
function findMainCommand(context: StepContext, { main, image }: RunningEnvironment): string[] | null {
  const variables = addComposeVariables(context.request.variables)
  const entrypoint = main?.entrypoint?.map((word) => fillTemplate(word, variables)) ?? image.entrypoint
  const command = main?.command?.map((word) => fillTemplate(word, variables))
  return entrypoint.length === 0 && !command ? null : [...entrypoint, ...(command ?? SLEEP_COMMAND)]
}

type MainSpec = Omit<SandboxSpec, 'id' | 'outputFile' | 'command' | 'usesExec' | 'user' | 'input'>

function toMainSpec(environment: RunningEnvironment, options: MainSandboxOptions): MainSpec {
  const { image, definition, main, network, files, workdir, env } = environment
  const names = [...(main?.hostname ? [main.hostname] : []), 'main', ...(main?.aliases ?? [])]
  return {
    image,
    baseFilesystem: options.base,
    uploads: [...listUploads(files, options.base), ...options.uploads],
    workdir,
    env: { ...env, ...options.network.env, ...options.env },
    mounts: [...files.mounts, ...options.mounts],
    network: network && main?.network !== 'none' ? { sandboxNetwork: network, names } : null,
    ports: options.network.ports,
    limits: {
      ...toMainLimits(definition.resources, main),
      outputBytes: options.limits.outputBytes,
      seconds: capSeconds(options.limits.seconds),
    },
  }
}

/** Input for image sources: the folder of the task and the variables of its compose file. */
type ImageSourceInput = { folder: string; variables: TaskVariables }

export const findMainService = ({ compose }: Environment): ComposeService | null =>
  compose?.services.find(({ name }) => name === MAIN_SERVICE) ?? null

/** Lists the services besides `main`. A named volume that is not shared becomes an anonymous one, which needs no mount. */
function listSidecarServices(environment: Environment): ComposeService[] {
  const shared = listSharedVolumes(environment)
  const makeUnsharedAnonymous = (mount: ComposeService['mounts'][number]): ComposeService['mounts'][number] =>
    mount.kind === 'volume' && mount.name !== null && !shared.includes(mount.name) ? { ...mount, name: null } : mount
  const sidecars = environment.compose?.services.filter(({ name }) => name !== MAIN_SERVICE) ?? []
  return sidecars.map((service) => ({ ...service, mounts: service.mounts.map(makeUnsharedAnonymous) }))
}

/** Returns the image source of `main`. As in Harbor, the compose file takes precedence over the task's own settings. */
export function toEnvironmentSource(environment: Environment, input: ImageSourceInput): ImageSource {
  const main = findMainService(environment)
  if (main && (main.build || namesAnImage(main))) return toServiceSource(main, input)
  const context = join(input.folder, environment.folder)
  const { image, dockerfile, compose, workdir } = environment
  if (image !== null) {
    return { kind: 'prebuilt', name: image, folder: dockerfile || compose ? null : context, workdir }
  }
  if (dockerfile === null) throw new SandboxUnsupported('The task declares neither a Dockerfile nor an image.')
  const path = posix.relative(environment.folder, dockerfile)
  return { kind: 'dockerfile', context, dockerfile: path, target: null, args: {} }
}

export function toServiceSource(
  { name, image, build }: ComposeService,
  { folder, variables }: ImageSourceInput,
): ImageSource {
  if (build) {
    const { context, dockerfile, target, args } = build
    return {
      kind: 'dockerfile',
      context: join(folder, context),
      dockerfile,
      target,
      args: fillEnv(args, variables),
    }
  }
  if (image) return { kind: 'prebuilt', name: fillTemplate(image, variables), folder: null, workdir: null }
  throw new SandboxUnsupported(`The service ${name} has neither an image nor a build.`)
}

/** Variables in which Harbor passes the name of the image that it built. */
const HARBOR_IMAGE_VARIABLES = ['MAIN_IMAGE_NAME', 'PREBUILT_IMAGE_NAME']

/** Returns true if a service names an image of its own, and not the one that Harbor built. */
const namesAnImage = ({ image }: ComposeService): boolean =>
  image !== null && !image.some((part) => typeof part !== 'string' && HARBOR_IMAGE_VARIABLES.includes(part.variable))
