import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join, posix } from 'node:path'
import type { Readable } from 'node:stream'
import { MAIN_SERVICE } from '../harbor/settings.ts'
import type { TaskArtifact, TaskStep } from '../harbor/task.ts'
import type { CollectCaps, StoppedSandbox } from '../sandboxes/sandbox.ts'
import type { ArtifactRecord } from './record.ts'
import type { StepContext } from './step-context.ts'
import { archiveThreads } from './threads.ts'

/** Artifact that is collected from every step, even if the task does not list it. */
const DEFAULT_ARTIFACT: TaskArtifact = {
  source: '/logs/artifacts',
  destination: 'artifacts',
  exclude: [],
  service: MAIN_SERVICE,
}

/** Maximum number of files and bytes in the artifacts of one collection together. */
const ARTIFACT_CAPS = { files: 50_000, bytes: 1024 ** 3 }
const MANIFEST = 'manifest.json'

/**
 * A collected artifact. `path`: its absolute path in the sandbox. `tar`: a temporary file in which all names begin with the
 * last part of that path. Undefined if nothing was collected.
 */
export type CollectedArtifact = { record: ArtifactRecord; path: string; tar: string | undefined }

export const listMainArtifacts = (step: TaskStep): TaskArtifact[] => [
  ...step.artifacts.filter(({ service }) => service === MAIN_SERVICE),
  DEFAULT_ARTIFACT,
]

export const listSidecarArtifacts = (step: TaskStep): TaskArtifact[] =>
  step.artifacts.filter(({ service }) => service !== MAIN_SERVICE)

/** Collects artifacts from stopped sandboxes. Nothing in them is executed, and links are not followed. */
export async function collectArtifacts(
  context: StepContext,
  artifacts: TaskArtifact[],
  findSandbox: (service: string) => StoppedSandbox | undefined,
  workdir: string,
): Promise<CollectedArtifact[]> {
  const collected: CollectedArtifact[] = []
  const remaining = { ...ARTIFACT_CAPS }
  for (const [index, artifact] of artifacts.entries()) {
    const result = await collectArtifact(context, artifact, {
      sandbox: findSandbox(artifact.service),
      path: posix.resolve(workdir, artifact.source),
      tar: join(context.folder, `artifact-${artifact.service}-${index}.tar`),
      caps: { ...remaining },
    })
    context.request.signal.throwIfAborted()
    remaining.files -= result.record.files
    remaining.bytes -= result.record.bytes
    if (artifact !== DEFAULT_ARTIFACT || result.record.files > 0) collected.push(result)
  }
  return collected
}

type CollectArtifactOptions = {
  sandbox: StoppedSandbox | undefined
  /** Absolute path in the sandbox. */
  path: string
  /** File to which the artifact is written. */
  tar: string
  caps: CollectCaps
}

/** Collects an artifact. Errors are recorded and not thrown, as in Harbor: untrusted files must not stop the trial. */
async function collectArtifact(
  { request }: StepContext,
  { source, service, exclude, destination }: TaskArtifact,
  { sandbox, path, tar, caps }: CollectArtifactOptions,
): Promise<CollectedArtifact> {
  const record = { source, service, destination: null, files: 0, bytes: 0, leftOut: [], error: null }
  try {
    const found = await sandbox?.collect(path, caps)
    if (!found) return { record, path, tar: undefined }
    const size = await archiveThreads.run(
      'spoolArtifact',
      { file: tar, exclude },
      { sources: [() => readChunks(found.tar)], group: request.workspaceId },
    )
    const target = destination ?? (posix.basename(path) || 'root')
    return { record: { ...record, ...size, destination: target, leftOut: found.leftOut }, path, tar }
  } catch (error) {
    return { record: { ...record, error: String(error) }, path, tar: undefined }
  }
}

async function* readChunks(tar: Readable): AsyncGenerator<Buffer, undefined> {
  yield* tar
}

/** Unpacks collected artifacts into the output folder, with a manifest. Returns their records. */
export async function unpackArtifacts(
  context: StepContext,
  step: TaskStep,
  collected: CollectedArtifact[],
): Promise<ArtifactRecord[]> {
  if (collected.length === 0) return []
  const folder = join(context.request.outputFolder, 'artifacts', ...(step.name === null ? [] : [step.name]))
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  const used = new Set<string>([MANIFEST])
  const records: ArtifactRecord[] = []
  for (const { record, tar } of collected) {
    if (tar === undefined || record.destination === null) {
      records.push(record)
      continue
    }
    const destination = chooseDestination(record.destination, used)
    const paths = { tar, target: join(folder, destination) }
    records.push(await unpackArtifact(context, { ...record, destination }, paths))
  }
  await writeFile(join(folder, MANIFEST), `${JSON.stringify({ artifacts: records }, null, 2)}\n`)
  return records
}

async function unpackArtifact(
  { request }: StepContext,
  record: ArtifactRecord,
  paths: { tar: string; target: string },
): Promise<ArtifactRecord> {
  try {
    const leftOut = await archiveThreads.run('unpackArtifact', paths, { group: request.workspaceId })
    return { ...record, leftOut: [...record.leftOut, ...leftOut] }
  } catch (error) {
    return { ...record, error: String(error) }
  }
}

/** Returns the destination, with a number if another artifact has the same one, or one lies inside the other. */
function chooseDestination(wanted: string, used: Set<string>): string {
  const clean = posix.normalize(wanted).replace(/\/$/, '')
  const isTaken = (path: string): boolean =>
    [...used].some((other) => `${other}/`.startsWith(`${path}/`) || `${path}/`.startsWith(`${other}/`))
  let path = clean
  for (let count = 2; isTaken(path); count += 1) path = `${count}-${clean}`
  used.add(path)
  return path
}
