import type { ComposeService, Environment } from '../harbor/task.ts'
import type { BaseFilesystem, Image, Mount, SandboxNetwork, SandboxSpec, SandboxUpload } from '../sandboxes/sandbox.ts'
import type { Bench } from './bench.ts'
import { environmentSource, mainService, serviceSource, sidecarServices } from './image-source.ts'
import { inReason, mainLimits, sidecarLimits } from './limits.ts'
import type { PhaseNetwork } from './network.ts'
import { insertsFor, type ServiceFiles, serviceFiles } from './service-files.ts'
import { type Sidecar, startSidecars, stopSidecars } from './sidecars.ts'
import { composeVariables, filledEnv } from './variables.ts'

/** The images of an environment: the agent's, and those of the services beside it, by name. */
export type Images = { main: Image; sidecars: Map<string, Image> }

/** An environment while it lives: sandboxes of `main` come and go, the services beside it stay. */
export type Surroundings = {
  environment: Environment
  main: ComposeService | null
  image: Image
  group: SandboxNetwork | null
  sidecars: Sidecar[]
  files: ServiceFiles
  /** Where a command is when nothing else is said. */
  workdir: string
  user: string | number
  env: Record<string, string>
}

export async function prepareImages(bench: Bench, environment: Environment): Promise<Images> {
  const { folder, variables } = bench.request
  const lookup = { folder, variables: composeVariables(variables) }
  const { buildTimeoutSec } = environment
  const limits = mainLimits(environment.resources, mainService(environment))
  const main = await bench.prepare(environmentSource(environment, lookup), buildTimeoutSec, limits)
  const sidecars = new Map<string, Image>()
  for (const service of sidecarServices(environment)) {
    const own = sidecarLimits(service, buildTimeoutSec)
    sidecars.set(service.name, await bench.prepare(serviceSource(service, lookup), buildTimeoutSec, own))
  }
  return { main, sidecars }
}

/** Starts the services beside the agent's, and waits until they are as far as the task says. */
export async function openSurroundings(
  bench: Bench,
  environment: Environment,
  images: Images,
  seconds: number,
): Promise<Surroundings> {
  const main = mainService(environment)
  const services = sidecarServices(environment)
  const { variables } = bench.request
  const group = services.length > 0 || main?.mounts.some(isNamedVolume) ? await bench.openGroup() : null
  const env = {
    ...filledEnv(main?.env ?? [], composeVariables(variables)),
    ...filledEnv(environment.env, variables),
  }
  const around: Surroundings = {
    environment,
    main,
    image: images.main,
    group,
    sidecars: [],
    files: await serviceFiles(bench, main),
    workdir: environment.workdir ?? main?.workdir ?? images.main.workdir,
    user: main?.user ?? images.main.user,
    env,
  }
  if (group) around.sidecars = await startSidecars(bench, { services, main, images: images.sidecars, group, seconds })
  return around
}

const isNamedVolume = (mount: ComposeService['mounts'][number]): boolean =>
  mount.kind === 'volume' && mount.name !== null

/** What one sandbox of `main` is for. */
export type MainWish = {
  seed: BaseFilesystem
  inserts: SandboxUpload[]
  mounts: Mount[]
  env: Record<string, string>
  network: PhaseNetwork
  limits: { seconds: number; outputBytes: number }
}

type MainSpec = Omit<SandboxSpec, 'id' | 'outputFile' | 'command' | 'execs' | 'user' | 'input'>

export const mainSpec = (around: Surroundings, wish: MainWish): MainSpec => ({
  image: around.image,
  baseFilesystem: wish.seed,
  uploads: [...insertsFor(around.files, wish.seed), ...wish.inserts],
  workdir: around.workdir,
  env: { ...around.env, ...wish.network.env, ...wish.env },
  mounts: [...around.files.mounts, ...wish.mounts],
  network:
    around.group && around.main?.network !== 'none' ? { group: around.group, names: namesOf(around.main) } : null,
  ports: wish.network.ports,
  limits: {
    ...mainLimits(around.environment.resources, around.main),
    outputBytes: wish.limits.outputBytes,
    seconds: inReason(wish.limits.seconds),
  },
})

const namesOf = (main: ComposeService | null): string[] => [
  ...(main?.hostname ? [main.hostname] : []),
  'main',
  ...(main?.aliases ?? []),
]

/** Whether something runs in it besides the agent or the verifier, or must have happened before. */
export const isInhabited = ({ environment, main, image }: Surroundings): boolean =>
  environment.healthcheck !== null ||
  (main?.healthcheck ?? { kind: 'none' }).kind !== 'none' ||
  image.entrypoint.length > 0 ||
  main?.command != null ||
  main?.entrypoint != null

export const closeSurroundings = (bench: Bench, around: Surroundings): Promise<void> =>
  stopSidecars(bench, around.sidecars)
