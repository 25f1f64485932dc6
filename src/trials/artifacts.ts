import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join, posix } from 'node:path'
import type { Readable } from 'node:stream'
import { MAIN_SERVICE } from '../harbor/settings.ts'
import type { TaskArtifact, TaskStep } from '../harbor/task.ts'
import type { StoppedSandbox } from '../sandboxes/sandbox.ts'
import type { Bench } from './bench.ts'
import type { ArtifactRecord } from './record.ts'
import type { Surroundings } from './surroundings.ts'
import { archiveThreads } from './threads.ts'

/** What an agent leaves here is kept, whether the task names it or not. */
const CONVENTIONAL: TaskArtifact = {
  source: '/logs/artifacts',
  destination: 'artifacts',
  exclude: [],
  service: MAIN_SERVICE,
}

/** Of one trial, together. */
const CAPS = { files: 50_000, bytes: 1024 ** 3 }
const MANIFEST = 'manifest.json'

/** An artifact as it was taken: a tar beside the trial, with names that begin with the last part of its path. */
export type Taken = { record: ArtifactRecord; path: string; tar: string | undefined }

export const mainArtifacts = (step: TaskStep): TaskArtifact[] => [
  ...step.artifacts.filter(({ service }) => service === MAIN_SERVICE),
  CONVENTIONAL,
]

export const sidecarArtifacts = (step: TaskStep): TaskArtifact[] =>
  step.artifacts.filter(({ service }) => service !== MAIN_SERVICE)

/** Takes artifacts out of what dead sandboxes left. Nothing in there is run, and no link of theirs is followed. */
export async function takeArtifacts(
  bench: Bench,
  artifacts: TaskArtifact[],
  find: (service: string) => StoppedSandbox | undefined,
  workdir: string,
): Promise<Taken[]> {
  const taken: Taken[] = []
  const left = { ...CAPS }
  for (const [index, artifact] of artifacts.entries()) {
    const path = posix.resolve(workdir, artifact.source)
    const spool = join(bench.folder, `artifact-${artifact.service}-${index}.tar`)
    const one = await takeOne(artifact, { path, spool, caps: { ...left }, from: find(artifact.service) })
    bench.request.signal.throwIfAborted()
    left.files -= one.record.files
    left.bytes -= one.record.bytes
    if (artifact !== CONVENTIONAL || one.record.files > 0) taken.push(one)
  }
  return taken
}

type Place = { path: string; spool: string; caps: { files: number; bytes: number }; from: StoppedSandbox | undefined }

/** Best effort, as in Harbor: what a stranger left there must not be able to stop the trial. */
async function takeOne({ source, service, exclude, destination }: TaskArtifact, place: Place): Promise<Taken> {
  const { path, spool, caps, from } = place
  const record = { source, service, destination: null, files: 0, bytes: 0, leftOut: [], error: null }
  try {
    const found = await from?.collect(path, caps)
    if (!found) return { record, path, tar: undefined }
    const size = await archiveThreads.run('spoolArtifact', { file: spool, exclude }, [() => chunksOf(found.tar)])
    const target = destination ?? (posix.basename(path) || 'root')
    return { record: { ...record, ...size, destination: target, leftOut: found.leftOut }, path, tar: spool }
  } catch (error) {
    return { record: { ...record, error: String(error) }, path, tar: undefined }
  }
}

async function* chunksOf(tar: Readable): AsyncGenerator<Buffer, undefined> {
  yield* tar
}

/** Of the services beside the agent's, once they are dead. */
export const remainsOf =
  ({ sidecars }: Surroundings) =>
  (name: string): StoppedSandbox | undefined =>
    sidecars.find(({ service }) => service.name === name)?.living.sandbox.stopped

/** Unpacks what was taken for people to look at, with a list of it. Answers the records. */
export async function keepArtifacts(bench: Bench, step: TaskStep, taken: Taken[]): Promise<ArtifactRecord[]> {
  if (taken.length === 0) return []
  const folder = join(bench.request.outputFolder, 'artifacts', ...(step.name === null ? [] : [step.name]))
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  const places = new Set<string>([MANIFEST])
  const records: ArtifactRecord[] = []
  for (const { record, tar } of taken) {
    if (tar === undefined || record.destination === null) {
      records.push(record)
      continue
    }
    const destination = freePlace(record.destination, places)
    records.push(await keepOne({ ...record, destination }, tar, join(folder, destination)))
  }
  await writeFile(join(folder, MANIFEST), `${JSON.stringify({ artifacts: records }, null, 2)}\n`)
  return records
}

async function keepOne(record: ArtifactRecord, tar: string, place: string): Promise<ArtifactRecord> {
  try {
    return { ...record, leftOut: [...record.leftOut, ...(await archiveThreads.run('keepFiles', { tar, place }))] }
  } catch (error) {
    return { ...record, error: String(error) }
  }
}

/** Two artifacts may be called the same, or one lie in the place of the other. */
function freePlace(wanted: string, places: Set<string>): string {
  const clean = posix.normalize(wanted).replace(/\/$/, '')
  const clashes = (path: string): boolean =>
    [...places].some((place) => `${place}/`.startsWith(`${path}/`) || `${path}/`.startsWith(`${place}/`))
  let path = clean
  for (let count = 2; clashes(path); count += 1) path = `${count}-${clean}`
  places.add(path)
  return path
}
