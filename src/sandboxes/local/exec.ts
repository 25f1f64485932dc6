import { constants, type Stats } from 'node:fs'
import { chmod, lchown, mkdir, open, symlink, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { readTarEntries, type TarEntry } from '../../harbor/tar-reader.ts'
import { readHits } from '../kernel/cgroup.ts'
import { staysInside } from '../kernel/collect.ts'
import { explain, type SandboxEnding } from '../kernel/explain.ts'
import { findInside, partsOf } from '../kernel/inside.ts'
import { runProgram } from '../kernel/run-program.ts'
import { partsIn, refused } from '../kernel/upload-path.ts'
import { type ExecSpec, type Exit, SandboxUnavailable, type SandboxUpload } from '../sandbox.ts'
import { asOrdinaryUser, findAccount } from './account.ts'
import type { ControlShell } from './control.ts'
import { rootOf } from './files.ts'
import { type Input, openInput } from './input.ts'
import { buildEnvironmentVariables } from './launch.ts'
import { copyOutput, type Output } from './output.ts'
import type { LocalRunningSandbox } from './running.ts'

type Life = { isOver(): boolean; exited: Promise<unknown>; isDiskFull(since: number): Promise<boolean> }

/** Runs another command in a running sandbox until it ends, times out or the sandbox ends. */
export async function execIn(
  running: LocalRunningSandbox,
  control: ControlShell,
  life: Life,
  spec: ExecSpec,
): Promise<Exit> {
  if (life.isOver()) throw new SandboxUnavailable(`Sandbox ${running.spec.id} has ended: nothing can be run in it.`)
  const begun = performance.now()
  const before = await hitsOf(running)
  const account = await accountFor(running, spec)
  const number = control.next()
  const { input, output } = await openFiles(control, number, spec)
  try {
    void control.started(number).then(() => input.send())
    await control.startCommand({
      number,
      launcher: running.host.launcher,
      account,
      command: spec.command,
      workdir: spec.workdir ?? running.spec.workdir ?? running.spec.image.workdir,
      env: buildEnvironmentVariables(running.spec.image, account, { ...running.spec.env, ...spec.env }),
      hasInput: spec.input.length > 0,
    })
    const ending = await firstOf(control.code(number), life, spec.limits.seconds)
    const seconds = (performance.now() - begun) / 1000
    if (ending.stopped === 'seconds') control.kill(number)
    const { bytes } = await output.stopCopying()
    const hits = await hitsOf(running)
    return explain({
      ...ending,
      seconds,
      outputBytes: bytes,
      outputMaxBytes: spec.limits.outputBytes,
      diskFull: await life.isDiskFull(begun).catch(() => false), // the sandbox may have gone meanwhile
      hits: { memory: hits.memory - before.memory, pids: hits.pids - before.pids },
    })
  } finally {
    input.close()
    await output.finish()
  }
}

async function openFiles(
  control: ControlShell,
  number: number,
  spec: ExecSpec,
): Promise<{ input: Input; output: Output }> {
  const [inputPipe = '', outputPipe = ''] = ['input', 'output'].map((name) => join(control.folder, `${number}.${name}`))
  await runProgram('mkfifo', ['-m', '666', inputPipe, outputPipe])
  const output = await copyOutput(outputPipe, spec.outputFile, spec.limits.outputBytes)
  return { output, input: await openInput(inputPipe, spec.input) }
}

async function accountFor({ host, holder, resources, spec }: LocalRunningSandbox, { user }: ExecSpec) {
  const wanted = user ?? spec.user ?? spec.image.user
  const found = await findAccount(rootOf(host, holder, resources.files), wanted)
  return host.rootless ? asOrdinaryUser(found, wanted) : found
}

/** Waits for the command's exit, its timeout or the end of the sandbox, whichever comes first. */
async function firstOf(
  ended: Promise<number>,
  life: Life,
  seconds: number,
): Promise<Pick<SandboxEnding, 'stopped' | 'code'>> {
  const late = Promise.withResolvers<'seconds'>()
  const clock = setTimeout(() => late.resolve('seconds'), seconds * 1000)
  const died = life.exited.then(
    () => 'kill' as const,
    () => 'kill' as const,
  )
  try {
    const first = await Promise.race([ended, late.promise, died])
    return typeof first === 'number' ? { stopped: undefined, code: first } : { stopped: first, code: undefined }
  } finally {
    clearTimeout(clock)
  }
}

const hitsOf = async ({ host, spec }: LocalRunningSandbox): Promise<{ memory: number; pids: number }> =>
  host.cgroups ? readHits(host.cgroups, spec.id) : { memory: 0, pids: 0 }

/** Folder that is uploaded to. Nothing runs in the sandbox at `root` yet. An ordinary user cannot change owners. */
type UploadTarget = { root: string; target: string[]; keepOwners: boolean; folders: Set<string> }

/** Unpacks archives into the files of a sandbox. A link in the image or in an archive leads nowhere: it is refused. */
export async function unpackInserts(root: string, inserts: SandboxUpload[], keepOwners: boolean): Promise<void> {
  for (const { target, tar } of inserts) {
    const place: UploadTarget = { root, target: partsOf(target), keepOwners, folders: new Set() }
    try {
      await makeFolders(place, [])
      for await (const entry of readTarEntries(tar)) await unpackEntry(place, entry)
    } finally {
      tar.destroy()
    }
  }
}

async function unpackEntry(place: UploadTarget, entry: TarEntry): Promise<void> {
  const parts = partsIn(entry)
  if (parts.length === 0) return
  await makeFolders(place, parts.slice(0, -1))
  const path = [...place.target, ...parts].join('/')
  const there = (await findInside(place.root, path))?.stats
  switch (entry.type) {
    case 'Directory':
      return makeFolder(place, path, there, entry)
    case 'File':
    case 'OldFile':
      await clear(place, path, there)
      return writeFile(place, path, entry)
    case 'SymbolicLink':
      if (!staysInside(`top/${parts.join('/')}`, entry.linkTarget)) throw refused(entry.path, 'a link that leads out')
      await clear(place, path, there)
      await symlink(entry.linkTarget, join(place.root, path))
      return own(place, path, entry)
    default:
      throw refused(entry.path, `of kind ${entry.type}`)
  }
}

async function makeFolders(place: UploadTarget, parts: string[]): Promise<void> {
  const all = [...place.target, ...parts]
  for (let length = 1; length <= all.length; length += 1) {
    const path = all.slice(0, length).join('/')
    if (place.folders.has(path)) continue
    await makeFolder(place, path, (await findInside(place.root, path))?.stats, { mode: 0o755, uid: 0, gid: 0 })
  }
}

type Nature = { mode: number; uid: number; gid: number }

/** Creates a folder. An existing one is left unchanged. */
async function makeFolder(place: UploadTarget, path: string, there: Stats | undefined, nature: Nature): Promise<void> {
  if (there && !there.isDirectory()) throw refused(path, there.isSymbolicLink() ? 'a link in the image' : 'no folder')
  place.folders.add(path)
  if (there) return
  await mkdir(join(place.root, path))
  // Owner rights are added so that an ordinary user can write into the folder.
  await chmod(join(place.root, path), (nature.mode & 0o777) | 0o700)
  await own(place, path, nature)
}

async function clear({ root, folders }: UploadTarget, path: string, there: Stats | undefined): Promise<void> {
  if (there?.isDirectory()) throw refused(path, 'a folder in the image')
  folders.delete(path)
  if (there) await unlink(join(root, path))
}

const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

async function writeFile(place: UploadTarget, path: string, entry: TarEntry): Promise<void> {
  await using file = await open(join(place.root, path), NEW_FILE, 0o600)
  for await (const chunk of entry.content()) await file.writeFile(chunk)
  // Mode bits without set-user-id, set-group-id and sticky.
  await file.chmod(entry.mode & 0o777)
  await own(place, path, entry)
}

async function own({ root, keepOwners }: UploadTarget, path: string, { uid, gid }: Nature): Promise<void> {
  if (keepOwners) await lchown(join(root, path), uid, gid)
}
