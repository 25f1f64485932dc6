import { hasPrivateRegistry } from '../../../platform/outbound/image-registry.ts'
import type { DockerfileInstruction } from '../../dockerfile.ts'
import { isTable, type Value } from '../../fields.ts'
import { findBuild, listRawServices } from '../compose-services.ts'
import type { RuleMatch, SafetyRule } from '../rule.ts'
import type { TaskView, UsedDockerfile } from '../view.ts'

type ImageReference = Omit<RuleMatch, 'detail'> & { image: string }

/** Matches images of private registries: pulling them would connect the runner to its own network. */
function matchPrivateRegistries(view: TaskView): RuleMatch[] {
  const args = listBuildArgs(view)
  return [
    ...view.environments.flatMap(({ image, folder }): ImageReference[] =>
      image === null
        ? []
        : [
            {
              path: folder === 'environment' ? 'environment.docker_image' : 'verifier.environment.docker_image',
              image,
            },
          ],
    ),
    ...listRawServices(view).flatMap(({ path, settings }) =>
      typeof settings.image === 'string' ? [{ path: `${path}.image`, image: expand(settings.image, new Map()) }] : [],
    ),
    ...view.dockerfiles.flatMap((used) => [
      ...listImages(used, new Map()),
      ...args.flatMap((buildArgs) => listImages(used, buildArgs)),
    ]),
  ]
    .filter(({ image }) => hasPrivateRegistry(image, view.buildHosts))
    .map(({ image: _, ...location }) => ({ ...location, detail: PRIVATE }))
}

const PRIVATE = 'The image is in a registry of a private network. Use a public one, or let the operator allow its host.'

/** Lists the build arguments of services. Each set may apply to any Dockerfile. */
const listBuildArgs = (view: TaskView): Map<string, string>[] =>
  listRawServices(view).flatMap((service) => {
    const args = readArgs(findBuild(service)?.args)
    return args.length === 0 ? [] : [new Map(args)]
  })

function readArgs(args: Value | undefined): [string, string][] {
  if (isTable(args)) return Object.entries(args).map(([name, value]) => [name, expand(String(value), new Map())])
  if (!Array.isArray(args)) return []
  return args.map((entry) => {
    const [name = '', ...value] = String(entry).split('=')
    return [name, expand(value.join('='), new Map())]
  })
}

/** Lists the images of FROM, `COPY --from` and `RUN --mount=from`. Names of stages never look like registries. */
function listImages({ path, dockerfile }: UsedDockerfile, args: ReadonlyMap<string, string>): ImageReference[] {
  const values = new Map<string, string>()
  for (const { name, value } of dockerfile.globals.flatMap(({ pairs }) => pairs))
    values.set(name, args.get(name) ?? expand(value ?? '', values))
  return dockerfile.stages.flatMap(({ image, line, instructions }) => [
    { path, line, image: expand(image, values) },
    ...instructions.flatMap((instruction) =>
      listSources(instruction).map((source) => ({ path, line: instruction.line, image: expand(source, values) })),
    ),
  ])
}

const listSources = ({ flags }: DockerfileInstruction): string[] =>
  flags.flatMap(({ name, value }) => {
    if (name === 'from') return [value ?? '']
    return name === 'mount' ? [/(?:^|,)from=([^,]*)/.exec(value ?? '')?.[1] ?? ''] : []
  })

/** Replaces variables by their values or fallbacks. */
const expand = (text: string, values: ReadonlyMap<string, string>): string =>
  text.replaceAll(
    /\$(?:\{(\w{1,100})(?::?[-+?]([^}]{0,500}))?\}|(\w{1,100}))/g,
    (_, name, fallback, bare) => values.get(name ?? bare) || (fallback ?? ''),
  )

export const registryRules: SafetyRule[] = [
  {
    id: 'private_registries',
    severity: 'block',
    description: 'an image of a registry in a private network: a private address, `localhost` or a name without a dot',
    check: matchPrivateRegistries,
  },
]
