import { constants, type Stats } from 'node:fs'
import { chmod, lchown, mkdir, open, symlink, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { readTarEntries, type TarEntry } from '../../harbor/tar-reader.ts'
import { readLimitHits } from '../kernel/cgroup.ts'
import { staysInside } from '../kernel/collect.ts'
import { type SandboxEnding, toExit } from '../kernel/exit.ts'
import { runProgram } from '../kernel/run-program.ts'
import { findInside, toPathParts } from '../kernel/sandbox-path.ts'
import { createUploadError, parseEntryPath } from '../kernel/upload-archive.ts'
import { type ExecSpec, type Exit, SandboxUnavailable, type SandboxUpload } from '../sandbox.ts'
import type { ControlShell } from './control.ts'
import { asOrdinaryUser, resolveSandboxAccount, rootOf } from './files.ts'
import { buildEnvironmentVariables, type LocalRunningSandbox } from './launch.ts'
import { type CommandInput, type CommandOutput, copyOutput, openInput } from './process-io.ts'

type SandboxLifetime = { isOver(): boolean; exited: Promise<unknown>; isDiskFull(since: number): Promise<boolean> }

/** Runs another command in a running sandbox until it ends, times out or the sandbox ends. */
export async function execIn(
  running: LocalRunningSandbox,
  control: ControlShell,
  lifetime: SandboxLifetime,
  spec: ExecSpec,
): Promise<Exit> {
  if (lifetime.isOver()) throw new SandboxUnavailable(`Sandbox ${running.spec.id} has ended.`)
  const startedAt = performance.now()
  const { cgroups } = running.host
  const hitsBefore = await readLimitHits(cgroups, running.spec.id)
  const account = await resolveExecAccount(running, spec)
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
    const ending = await waitForEnd(control.code(number), lifetime, spec.limits.seconds)
    const seconds = (performance.now() - startedAt) / 1000
    if (ending.stopReason === 'seconds') control.kill(number)
    const { bytes } = await output.stopCopying()
    const hits = await readLimitHits(cgroups, running.spec.id)
    return toExit({
      ...ending,
      seconds,
      outputBytes: bytes,
      outputMaxBytes: spec.limits.outputBytes,
      diskFull: await lifetime.isDiskFull(startedAt).catch(() => false), // the sandbox may have been removed
      hits: { memory: hits.memory - hitsBefore.memory, pids: hits.pids - hitsBefore.pids },
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
): Promise<{ input: CommandInput; output: CommandOutput }> {
  const [inputPipe = '', outputPipe = ''] = ['input', 'output'].map((name) => join(control.folder, `${number}.${name}`))
  await runProgram('mkfifo', ['-m', '666', inputPipe, outputPipe])
  const output = await copyOutput(outputPipe, spec.outputFile, spec.limits.outputBytes)
  return { output, input: await openInput(inputPipe, spec.input) }
}

async function resolveExecAccount(
  { host, namespaceProcess, resources, spec }: LocalRunningSandbox,
  { user }: ExecSpec,
) {
  const name = user ?? spec.user ?? spec.image.user
  const account = await resolveSandboxAccount(rootOf(host, namespaceProcess, resources.files), name)
  return host.rootless ? asOrdinaryUser(account, name) : account
}

/** Waits for the command's exit, its timeout or the end of the sandbox, whichever comes first. */
async function waitForEnd(
  exitCode: Promise<number>,
  lifetime: SandboxLifetime,
  seconds: number,
): Promise<Pick<SandboxEnding, 'stopReason' | 'code'>> {
  const timeout = Promise.withResolvers<'seconds'>()
  const timer = setTimeout(() => timeout.resolve('seconds'), seconds * 1000)
  const sandboxEnd = lifetime.exited.then(
    () => 'kill' as const,
    () => 'kill' as const,
  )
  try {
    const first = await Promise.race([exitCode, timeout.promise, sandboxEnd])
    return typeof first === 'number' ? { stopReason: undefined, code: first } : { stopReason: first, code: undefined }
  } finally {
    clearTimeout(timer)
  }
}

type UploadTarget = {
  /** Root folder of the sandbox, in which nothing runs yet. */
  root: string
  /** Path of the target folder in the sandbox. */
  target: string[]
  /** Sets the owners that the archive names, which only root can do. */
  keepOwners: boolean
  /** Paths that are known to be folders. */
  folders: Set<string>
}

/** Unpacks archives into the files of a sandbox. Refuses an upload through a link of the image or of an archive. */
export async function unpackUploads(root: string, uploads: SandboxUpload[], keepOwners: boolean): Promise<void> {
  for (const { target, tar } of uploads) {
    const upload: UploadTarget = { root, target: toPathParts(target), keepOwners, folders: new Set() }
    try {
      await ensureFolders(upload, [])
      for await (const entry of readTarEntries(tar)) await unpackEntry(upload, entry)
    } finally {
      tar.destroy()
    }
  }
}

async function unpackEntry(upload: UploadTarget, entry: TarEntry): Promise<void> {
  const parts = parseEntryPath(entry)
  if (parts.length === 0) return
  await ensureFolders(upload, parts.slice(0, -1))
  const path = [...upload.target, ...parts].join('/')
  const existing = (await findInside(upload.root, path))?.stats
  switch (entry.type) {
    case 'Directory':
      return ensureFolder(upload, path, existing, entry)
    case 'File':
    case 'OldFile':
      await removeExisting(upload, path, existing)
      return writeFile(upload, path, entry)
    case 'SymbolicLink':
      if (!staysInside(`top/${parts.join('/')}`, entry.linkTarget))
        throw createUploadError(entry.path, 'is a link out of the target')
      await removeExisting(upload, path, existing)
      await symlink(entry.linkTarget, join(upload.root, path))
      return setOwner(upload, path, entry)
    default:
      throw createUploadError(entry.path, `has the type ${entry.type}`)
  }
}

async function ensureFolders(upload: UploadTarget, parts: string[]): Promise<void> {
  const all = [...upload.target, ...parts]
  for (let length = 1; length <= all.length; length += 1) {
    const path = all.slice(0, length).join('/')
    if (upload.folders.has(path)) continue
    await ensureFolder(upload, path, (await findInside(upload.root, path))?.stats, { mode: 0o755, uid: 0, gid: 0 })
  }
}

type FileMetadata = { mode: number; uid: number; gid: number }

/** Creates a folder if it is missing. An existing folder is left unchanged. */
async function ensureFolder(
  upload: UploadTarget,
  path: string,
  existing: Stats | undefined,
  metadata: FileMetadata,
): Promise<void> {
  if (existing && !existing.isDirectory())
    throw createUploadError(path, existing.isSymbolicLink() ? 'is a link in the image' : 'is not a folder')
  upload.folders.add(path)
  if (existing) return
  await mkdir(join(upload.root, path))
  // Owner rights are added so that an ordinary user can write into the folder.
  await chmod(join(upload.root, path), (metadata.mode & 0o777) | 0o700)
  await setOwner(upload, path, metadata)
}

async function removeExisting(
  { root, folders }: UploadTarget,
  path: string,
  existing: Stats | undefined,
): Promise<void> {
  if (existing?.isDirectory()) throw createUploadError(path, 'is a folder in the image')
  folders.delete(path)
  if (existing) await unlink(join(root, path))
}

const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

async function writeFile(upload: UploadTarget, path: string, entry: TarEntry): Promise<void> {
  await using file = await open(join(upload.root, path), NEW_FILE, 0o600)
  for await (const chunk of entry.content()) await file.writeFile(chunk)
  // Mode bits without set-user-id, set-group-id and sticky.
  await file.chmod(entry.mode & 0o777)
  await setOwner(upload, path, entry)
}

async function setOwner({ root, keepOwners }: UploadTarget, path: string, { uid, gid }: FileMetadata): Promise<void> {
  if (keepOwners) await lchown(join(root, path), uid, gid)
}
