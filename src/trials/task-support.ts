import { declaresGrader } from '../harbor/safety/verifier-strength.ts'
import type { ComposeService, Environment, Task, TaskStep } from '../harbor/task.ts'
import { IMAGE_ARCHITECTURE } from '../sandboxes/kernel/prepare-image.ts'
import { type Capabilities, SandboxUnsupported } from '../sandboxes/sandbox.ts'
import { listSidecarArtifacts } from './artifacts.ts'
import { VERIFY_MODES, type VerifyMode } from './record.ts'
import { listSharedVolumes } from './task-files.ts'

/**
 * Lists the verify modes that a task supports, from the strictest. `grader` requires `[metadata.assay] grader = true`: the
 * task promises that its test script runs as root and the submission's code as another user.
 */
export function listModes(task: Task): VerifyMode[] {
  if (hasOnlySeparateVerifiers(task)) return ['workspace']
  return VERIFY_MODES.filter((mode) => mode !== 'grader' || declaresGrader(task))
}

/** Returns the mode in which a trial is verified: a separate verifier always sees artifacts only. */
export const resolveMode = (task: Task, requested: VerifyMode): VerifyMode =>
  hasOnlySeparateVerifiers(task) && requested !== 'grader' ? 'workspace' : requested

const hasOnlySeparateVerifiers = ({ steps }: Task): boolean =>
  steps.every(({ verifier }) => verifier.sandbox.mode === 'separate')

/** Throws SandboxUnsupported with the features of the task that are not supported, before anything is built or spent. */
export function requireSupported(task: Task, { networks, volumes }: Capabilities): void {
  const environments = [
    task.environment,
    ...task.steps.flatMap(({ verifier: { sandbox } }) => (sandbox.mode === 'separate' ? [sandbox.environment] : [])),
  ]
  const unsupported = environments.flatMap(listUnsupported)
  if (!networks && environments.some(needsSandboxNetwork)) unsupported.push('docker-compose in this sandbox')
  if (!volumes) unsupported.push(...environments.flatMap(listSharedVolumes).map(toVolumeFeature))
  if (task.steps.slice(0, -1).some(needsSidecarFiles))
    unsupported.push('an artifact of another service for the separate verifier of a step that is not the last')
  if (unsupported.length > 0)
    throw new SandboxUnsupported(`This engine does not support: ${[...new Set(unsupported)].join('; ')}.`)
}

const needsSandboxNetwork = ({ compose }: Environment): boolean => (compose?.services.length ?? 0) > 1

const toVolumeFeature = (name: string): string => `a shared volume in this sandbox (volumes.${name})`

/** Sidecars are stopped before their files are collected, but later steps need them. */
const needsSidecarFiles = (step: TaskStep): boolean =>
  step.verifier.sandbox.mode === 'separate' && listSidecarArtifacts(step).length > 0

const listUnsupported = ({ os, resources, compose }: Environment): string[] => [
  ...(os === 'windows' ? ['environment.os = "windows"'] : []),
  ...(resources.gpus ? ['environment.gpus'] : []),
  ...(resources.tpu ? ['environment.tpu'] : []),
  ...(compose?.services ?? []).flatMap((service) => listUnsupportedInService(service, compose?.services ?? [])),
]

const OWN_PLATFORM = `linux/${IMAGE_ARCHITECTURE}`

function listUnsupportedInService(
  { name, readOnly, platform, network, mounts, dependsOn }: ComposeService,
  all: ComposeService[],
): string[] {
  const inService = (feature: string) => `${feature} (services.${name})`
  const hasHealthcheck = (service: string): boolean =>
    (all.find((each) => each.name === service)?.healthcheck?.kind ?? 'none') !== 'none'
  const unchecked = dependsOn.filter(({ service, condition }) => condition === 'healthy' && !hasHealthcheck(service))
  const hasVolume = mounts.some((mount) => mount.kind === 'volume' && mount.name !== null)
  return [
    ...(readOnly ? [inService('read_only')] : []),
    ...(platform !== null && platform !== OWN_PLATFORM ? [inService(`platform: ${platform}`)] : []),
    ...(network === 'none' && hasVolume ? [inService('network_mode: none together with a named volume')] : []),
    ...unchecked.map(({ service }) => inService(`waiting until ${service} is healthy, which has no healthcheck`)),
  ]
}
