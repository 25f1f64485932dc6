import { arch } from 'node:process'
import type { ComposeService, Environment, Task, TaskStep } from '../harbor/task.ts'
import { type Capabilities, SandboxUnsupported } from '../sandboxes/sandbox.ts'
import { sidecarArtifacts } from './artifacts.ts'

/** Refuses by name what is not done here, before anything is built or spent. */
export function requireSupported(task: Task, { groups }: Capabilities): void {
  const environments = [task.environment, ...task.steps.flatMap(({ verifier }) => separateEnvironment(verifier.place))]
  const wants = [
    ...environments.flatMap(environmentWants),
    ...(environments.some(needsGroup) && !groups ? ['docker-compose in this sandbox'] : []),
    ...task.steps.slice(0, -1).flatMap(earlyStepWants),
  ]
  if (wants.length > 0) throw new SandboxUnsupported(`This engine does not do: ${[...new Set(wants)].join('; ')}.`)
}

const separateEnvironment = (place: TaskStep['verifier']['place']): Environment[] =>
  place.mode === 'separate' ? [place.environment] : []

const needsGroup = ({ compose }: Environment): boolean => (compose?.services.length ?? 0) > 1

const environmentWants = ({ os, resources, compose }: Environment): string[] => [
  ...(os === 'windows' ? ['environment.os = "windows"'] : []),
  ...(resources.gpus ? ['environment.gpus'] : []),
  ...(resources.tpu ? ['environment.tpu'] : []),
  ...(compose?.services ?? []).flatMap((service) => serviceWants(service, compose?.services ?? [])),
]

const ARCHITECTURES: Record<string, string> = { x64: 'amd64', arm64: 'arm64' }
const OURS = `linux/${ARCHITECTURES[arch] ?? arch}`

function serviceWants(
  { name, readOnly, platform, network, mounts, dependsOn }: ComposeService,
  all: ComposeService[],
): string[] {
  const of = (what: string) => `${what} (services.${name})`
  const isChecked = (service: string): boolean =>
    (all.find((each) => each.name === service)?.healthcheck?.kind ?? 'none') !== 'none'
  const unchecked = dependsOn.filter(({ service, condition }) => condition === 'healthy' && !isChecked(service))
  const hasVolume = mounts.some((mount) => mount.kind === 'volume' && mount.name !== null)
  return [
    ...(readOnly ? [of('read_only')] : []),
    ...(platform !== null && platform !== OURS ? [of(`platform: ${platform}`)] : []),
    ...(network === 'none' && hasVolume ? [of('network_mode: none together with a named volume')] : []),
    ...unchecked.map(({ service }) => of(`waiting until ${service} is healthy, which has no healthcheck`)),
  ]
}

/** The services beside the agent's are killed before their files are taken, and later steps need them. */
const earlyStepWants = (step: TaskStep): string[] =>
  step.verifier.place.mode === 'separate' && sidecarArtifacts(step).length > 0
    ? ['an artifact of another service for the separate verifier of a step that is not the last']
    : []
