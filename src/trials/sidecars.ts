import { orderServices } from '../harbor/compose.ts'
import type { ComposeService } from '../harbor/task.ts'
import { type Exit, type Image, type SandboxNetwork, SandboxUnsupported } from '../sandboxes/sandbox.ts'
import type { Bench } from './bench.ts'
import { NeverReady } from './health.ts'
import { sidecarLimits } from './limits.ts'
import { type Living, livingOf } from './living.ts'
import type { SidecarRecord } from './record.ts'
import { insertsFor, serviceFiles } from './service-files.ts'
import { composeVariables, filled, filledEnv } from './variables.ts'

/** A service beside the agent's. Null: it still lived when the trial was over. */
export type Sidecar = { service: ComposeService; living: Living; exit: Exit | null; healthy: Promise<void> | undefined }

type Cast = {
  services: ComposeService[]
  /** The agent's own, which may wait for others. */
  main: ComposeService | null
  images: Map<string, Image>
  group: SandboxNetwork
  seconds: number
}

/** Each after those it waits for. All with a healthcheck are healthy in the end, as `docker compose up --wait` has it. */
export async function startSidecars(bench: Bench, cast: Cast): Promise<Sidecar[]> {
  const sidecars: Sidecar[] = []
  const names = new Set(cast.services.map(({ name }) => name))
  const order = orderServices(cast.services.map((service) => ({ ...service, dependsOn: among(service, names) }))) ?? []
  for (const service of order) {
    await awaitDependencies(bench, service, sidecars)
    sidecars.push(await startSidecar(bench, service, cast))
  }
  if (cast.main) await awaitDependencies(bench, cast.main, sidecars)
  for (const sidecar of sidecars) await awaitHealth(sidecar)
  return sidecars
}

const among = (service: ComposeService, names: Set<string>): ComposeService['dependsOn'] =>
  service.dependsOn.filter((dependency) => names.has(dependency.service))

async function awaitDependencies(
  bench: Bench,
  { name, dependsOn }: ComposeService,
  sidecars: Sidecar[],
): Promise<void> {
  for (const { service, condition } of dependsOn) {
    const sidecar = sidecars.find((each) => each.service.name === service)
    if (!sidecar)
      throw new SandboxUnsupported(`The service ${name} waits for ${service}, which is not started before it.`)
    if (condition === 'healthy') await awaitHealth(sidecar)
    if (condition !== 'completed') continue
    const { code, limit } = await sidecar.living.sandbox.exited
    bench.request.signal.throwIfAborted()
    if (code !== 0) throw new NeverReady(`The service ${service} did not complete: ${limit ?? `code ${code}`}.`)
  }
}

async function startSidecar(bench: Bench, service: ComposeService, cast: Cast): Promise<Sidecar> {
  const image = cast.images.get(service.name)
  if (!image) throw new Error(`The service ${service.name} has no image.`)
  const variables = composeVariables(bench.request.variables)
  const files = await serviceFiles(bench, service)
  const baseFilesystem = { kind: 'image' } as const
  const env = filledEnv(service.env, variables)
  const { user, workdir } = service
  const sandbox = await bench.start(fileName(service), {
    image,
    baseFilesystem,
    uploads: insertsFor(files, baseFilesystem),
    command: commandOf(service, image, (words) => words.map((word) => filled(word, variables))),
    execs: true,
    user,
    workdir,
    env,
    mounts: files.mounts,
    network: service.network === 'none' ? null : { group: cast.group, names: namesOf(service) },
    ports: [],
    limits: sidecarLimits(service, cast.seconds),
    input: '',
  })
  const living = livingOf(bench, sandbox, { user, workdir, env })
  const sidecar: Sidecar = { service, living, exit: null, healthy: undefined }
  sandbox.exited.then(
    (exit) => {
      sidecar.exit = exit
    },
    () => {},
  )
  return sidecar
}

const NAME_LENGTH_MAX = 60

const fileName = ({ name }: ComposeService): string => `sidecar-${name.slice(0, NAME_LENGTH_MAX)}`

/** As Docker has it: an entrypoint of the compose file drops the image's command too. */
function commandOf(
  service: ComposeService,
  image: Image,
  fill: (words: NonNullable<ComposeService['command']>) => string[],
): string[] {
  const entrypoint = service.entrypoint ? fill(service.entrypoint) : image.entrypoint
  const fallback = service.entrypoint ? [] : image.command
  const command = [...entrypoint, ...(service.command ? fill(service.command) : fallback)]
  if (command.length === 0) throw new SandboxUnsupported(`The service ${service.name} has nothing to run.`)
  return command
}

const namesOf = ({ hostname, name, aliases }: ComposeService): string[] => [
  ...new Set([...(hostname ? [hostname] : []), name, ...aliases]),
]

/** Asked once: later waiters wait for the same answer. */
function awaitHealth(sidecar: Sidecar): Promise<void> {
  const { service, living } = sidecar
  const { healthcheck } = service
  if (healthcheck === null || healthcheck.kind === 'none') return Promise.resolve()
  const command = healthcheck.kind === 'exec' ? healthcheck.test : ['sh', '-c', healthcheck.test[0] ?? '']
  sidecar.healthy ??= living.healthy(`the service ${service.name}`, command, healthcheck)
  return sidecar.healthy
}

/** What was still alive is killed, and stays without an exit in the record. Their files can be collected then. */
export async function stopSidecars(bench: Bench, sidecars: Sidecar[]): Promise<void> {
  const living = sidecars.filter(({ exit }) => exit === null)
  await Promise.all(
    living.map(async (sidecar) => {
      await sidecar.living.sandbox.kill()
      await sidecar.living.sandbox.exited.catch(() => {}) // nobody needs it any more, and the verdict stands
      sidecar.exit = null
    }),
  )
  bench.request.signal.throwIfAborted()
}

export const sidecarRecords = (sidecars: Sidecar[]): SidecarRecord[] =>
  sidecars.map(({ service, exit }) => ({ name: service.name, exit }))
