import type { TaskStep } from '../harbor/task.ts'
import type { Bundle } from '../harnesses/bundles/bundle.ts'
import { install } from '../harnesses/bundles/install.ts'
import { describeProgramNeeds } from '../harnesses/bundles/program-needs.ts'
import { HARNESS_FOLDER, type HarnessRun, HarnessUnfit, HOME, type TaskResources } from '../harnesses/harness.ts'
import type { Mount, SandboxUpload } from '../sandboxes/sandbox.ts'
import { type RunningEnvironment, runInMain } from './environment.ts'
import type { StepContext } from './step-context.ts'
import { type FileOwnership, packTexts } from './tar.ts'
import type { TrialRequest } from './trial-request.ts'
import { fillEnv } from './variables.ts'

/** Installs the harness's programs and returns their mounts. First checks that the harness can do every step. */
export async function installBundle(request: TrialRequest): Promise<Mount[]> {
  const { harness, bundles, signal, task } = request
  for (const step of task.steps) planHarnessRun(request, step)
  if (!harness.bundle) return []
  if (!bundles) throw new HarnessUnfit(`There is no folder in which ${harness.name} could be installed.`)
  const { onProgress = () => {} } = bundles
  const installed = await install(harness.bundle, { ...bundles, signal, onProgress })
  return installed.map(({ source, target }) => ({
    kind: 'folder' as const,
    source,
    target,
    readOnly: true,
    isImmutable: true,
  }))
}

/** Returns the command that the harness runs in a step. Throws HarnessUnfit when it cannot do this task. */
export function planHarnessRun(request: TrialRequest, step: TaskStep): HarnessRun | undefined {
  const { harness, task, variables, model } = request
  const { skillsDir, mcpServers } = task.environment
  const resources: TaskResources = {
    solutionEnv: task.solutionEnv,
    skillsDir,
    mcpServers: mcpServers.map((server) =>
      server.transport === 'stdio' ? server : { ...server, headers: fillEnv(server.headers, variables) },
    ),
  }
  const planned = harness.plan(step, resources, model?.access)
  const run = planned && { ...planned, command: [...planned.command, ...(request.configuration?.arguments ?? [])] }
  if (!run?.skills || skillsDir === null) return run
  return { ...run, command: ['sh', '-c', COPY_SKILLS, 'skills', skillsDir, `${HOME}/${run.skills}`, ...run.command] }
}

/** Script that copies the skills of the image to the home directory, and then runs the command. */
const COPY_SKILLS = 'mkdir -p "$2" && cp -R "$1"/. "$2"/; shift 2; exec "$@"'

/** Returns the upload of a HOME with the files that the harness expects there. */
export function listHomeUploads(run: HarnessRun | undefined, ownership: FileOwnership): SandboxUpload[] {
  if (!run?.files) return []
  return [{ target: HARNESS_FOLDER, tar: packTexts('home', run.files, ownership) }]
}

const PROBE_SECONDS = 60
const PROBE_OUTPUT_BYTES = 10_000

/** Combinations of image digest, bundle folders and probe command for which the probe succeeded and is not repeated. */
const workingCombinations = new Set<string>()

/** Runs the bundle's probe in the image before anything is spent: the architecture or the C library may not match. */
export async function requireBundleRuns(context: StepContext, environment: RunningEnvironment): Promise<void> {
  const { harness } = context.request
  if (!harness.bundle) return
  const folders = context.mounts.map((mount) => ('source' in mount ? mount.source : ''))
  const combination = JSON.stringify([environment.image.digest, folders, harness.bundle.probe])
  if (workingCombinations.has(combination)) return
  const network = context.openPhaseNetwork({ mode: 'no-network', hosts: [] }, 'verifier')
  const limits = { seconds: PROBE_SECONDS, outputBytes: PROBE_OUTPUT_BYTES }
  const { exit, sandbox } = await runInMain(context, environment, 'fit', {
    sandbox: { base: { kind: 'image' }, uploads: [], mounts: context.mounts, env: {}, network, limits },
    command: { command: harness.bundle.probe, ...limits },
  })
  context.removeLater(sandbox)
  if (exit.code !== 0) {
    const reason =
      exit.limit === 'seconds' ? `not started within ${PROBE_SECONDS} s` : (exit.limit ?? `code ${exit.code}`)
    const needs = await describeNeeds(harness.bundle, context.mounts)
    throw new HarnessUnfit(`${harness.name} does not run in the image of this task (${reason}). ${needs}`)
  }
  workingCombinations.add(combination)
}

/** Describes what a bundle needs of an image. Bundles with lock files need the same; the needs of others are read from their program. */
async function describeNeeds({ parts, needs, probe: [program = ''] }: Bundle, mounts: Mount[]): Promise<string> {
  if (needs !== undefined) return needs
  if (parts.every((part) => 'lock' in part)) return 'It needs Linux with glibc, on the architecture of this machine.'
  for (const mount of mounts)
    if (mount.kind === 'folder' && program.startsWith(`${mount.target}/`))
      return describeProgramNeeds(mount.source, program.slice(mount.target.length))
  return `${program} is not in the bundle, so the image must contain it.`
}
