import type { TaskStep } from '../harbor/task.ts'
import type { Bundle } from '../harnesses/bundles/bundle.ts'
import { install } from '../harnesses/bundles/install.ts'
import { describeProgramNeeds } from '../harnesses/bundles/program-needs.ts'
import { HARNESS_FOLDER, type HarnessRun, HOME, type TaskResources } from '../harnesses/harness.ts'
import { HarnessUnfit } from '../harnesses/harness-unfit.ts'
import type { Mount, SandboxUpload } from '../sandboxes/sandbox.ts'
import type { Bench, TrialRequest } from './bench.ts'
import { runIn } from './inhabit.ts'
import type { Surroundings } from './surroundings.ts'
import { type Ownership, tarOfTexts } from './tar.ts'
import { filledEnv } from './variables.ts'

/** What the harness runs in a step. Throws HarnessUnfit when it cannot do this task. */
export function runOf({ harness, task, variables, model }: TrialRequest, step: TaskStep): HarnessRun | undefined {
  const { skillsDir, mcpServers } = task.environment
  const kit: TaskResources = {
    solutionEnv: task.solutionEnv,
    skillsDir,
    mcpServers: mcpServers.map((server) =>
      server.transport === 'stdio' ? server : { ...server, headers: filledEnv(server.headers, variables) },
    ),
  }
  const run = harness.plan(step, kit, model?.access)
  if (!run?.skills || skillsDir === null) return run
  return { ...run, command: ['sh', '-c', COPY_SKILLS, 'skills', skillsDir, `${HOME}/${run.skills}`, ...run.command] }
}

/** Only the sandbox knows what is in a folder of its image. */
const COPY_SKILLS = 'mkdir -p "$2" && cp -R "$1"/. "$2"/; shift 2; exec "$@"'

/** A HOME with what the program is to find there. */
export function homeOf(run: HarnessRun | undefined, ownership: Ownership): SandboxUpload[] {
  if (!run?.files) return []
  return [{ target: HARNESS_FOLDER, tar: tarOfTexts('home', run.files, ownership) }]
}

/** Before anything else is done: whether the harness can do this task at all, and what it needs on this machine. */
export async function installFor(request: TrialRequest): Promise<Mount[]> {
  const { harness, bundles, signal, task } = request
  for (const step of task.steps) runOf(request, step)
  if (!harness.bundle) return []
  if (!bundles) throw new HarnessUnfit(`There is no place in which ${harness.name} could be installed.`)
  const { onProgress = () => {} } = bundles
  const installed = await install(harness.bundle, { ...bundles, signal, onProgress })
  return installed.map(({ source, target }) => ({ kind: 'folder' as const, source, target, readOnly: true }))
}

const PROBE_SECONDS = 60

/** Image, bundle and probe, by digest, folder and words, that were seen to fit. They do not change. */
const fitting = new Set<string>()

/** Tries the bundle in the image, before anything is spent: it may be of another machine, or need another C library. */
export async function requireFit(bench: Bench, around: Surroundings): Promise<void> {
  const { harness } = bench.request
  if (!harness.bundle) return
  const folders = bench.mounts.map((mount) => ('source' in mount ? mount.source : ''))
  const tried = JSON.stringify([around.image.digest, folders, harness.bundle.probe])
  if (fitting.has(tried)) return
  const network = bench.network({ mode: 'no-network', hosts: [] }, 'verifier')
  const wish = { seed: { kind: 'image' as const }, inserts: [], mounts: bench.mounts, env: {}, network }
  const limits = { seconds: PROBE_SECONDS, outputBytes: PROBE_OUTPUT_BYTES }
  const exec = { command: harness.bundle.probe, ...limits }
  const { exit, sandbox } = await runIn(bench, around, 'fit', { wish: { ...wish, limits }, exec })
  bench.removeLater(sandbox)
  if (exit.code !== 0) {
    const how = exit.limit ?? `code ${exit.code}`
    const needs = await needsOf(harness.bundle, bench.mounts)
    throw new HarnessUnfit(`${harness.name} does not run in the image of this task (${how}). ${needs}`)
  }
  fitting.add(tried)
}

/** Of programs that we chose ourselves it is known. */
async function needsOf({ parts, probe: [program = ''] }: Bundle, mounts: Mount[]): Promise<string> {
  if (parts.every((part) => 'lock' in part)) return 'It needs Linux with glibc, on the architecture of this machine.'
  for (const mount of mounts)
    if (mount.kind === 'folder' && program.startsWith(`${mount.target}/`))
      return describeProgramNeeds(mount.source, program.slice(mount.target.length))
  return `${program} is not in its bundle; the image would have to have it.`
}

const PROBE_OUTPUT_BYTES = 10_000
