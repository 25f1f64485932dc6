import { createHash } from 'node:crypto'
import { posix } from 'node:path'
import { type FilteredTar, filterTar, type TarFilterOptions } from '../kernel/filter-tar.ts'
import { toPathParts } from '../kernel/sandbox-path.ts'
import { createUploadError } from '../kernel/upload-archive.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { type Cluster, type HELPER, MAIN } from './cluster.ts'
import { collectErrors, runExec, withExec } from './exec-stream.ts'
import { buildScriptCommand } from './tools.ts'

/** Timeout of copying all files of a sandbox. */
export const TRANSFER_TIMEOUT_MS = 15 * 60_000
const SCRIPT_TIMEOUT_MS = 60_000

const NOT_UNPACKED = 'The archive was not unpacked.'

/**
 * Script that unpacks an archive into a folder and prints the digest of the bytes that arrived, because the cluster may
 * lose input without an error. In scripts, `call` runs a program: one of the tools, or in the helper container its own.
 */
const UNPACK_SCRIPT = `{
  call tee /dev/fd/3 | {
    call tar --extract --file=- --directory="$1" --numeric-owner --same-owner --same-permissions --keep-directory-symlink || echo '${NOT_UNPACKED}' >&2
    call cat > /dev/null
  }
} 3>&1 | call sha256sum`

type TransferContainer = typeof MAIN | typeof HELPER
type UnpackTarget = { pod: string; container: TransferContainer; folder: string }

/** Unpacks an archive in a sandbox. Throws SandboxUnavailable unless every byte arrived. */
export async function unpackInto(
  cluster: Cluster,
  { pod, container, folder }: UnpackTarget,
  tar: AsyncIterable<Buffer>,
): Promise<void> {
  const hash = createHash('sha256')
  async function* hashChunks(): AsyncGenerator<Buffer> {
    for await (const chunk of tar) {
      hash.update(chunk)
      yield chunk
    }
  }
  const command = buildCommandIn(container, UNPACK_SCRIPT, folder)
  const { kubernetes, namespace } = cluster
  const target = { namespace, pod, container }
  const { output, errors } = await runExec(kubernetes, target, command, {
    input: hashChunks(),
    timeoutMs: TRANSFER_TIMEOUT_MS,
  })
  const arrived = output.toString().slice(0, 64)
  if (errors.includes(NOT_UNPACKED)) throw new SandboxUnavailable(`Files could not be put into a sandbox: ${errors}`)
  if (arrived !== hash.digest('hex'))
    throw new SandboxUnavailable('Some bytes of the files did not arrive in the sandbox.')
}

/** Returns the command line of a script. In the helper container, `call` runs the programs of its image. */
const buildCommandIn = (container: TransferContainer, script: string, ...args: string[]): string[] =>
  container === MAIN
    ? buildScriptCommand(script, ...args)
    : ['sh', '-c', `call() { "$@"; }\n${script}`, 'assay', ...args]

/** Script that prints the first part of a path that is a link or not a folder. */
const CHECK_FOLDERS_SCRIPT = `for path; do
  if [ -L "$path" ]; then printf 'link %s' "$path"; exit; fi
  if [ -e "$path" ] && [ ! -d "$path" ]; then printf 'file %s' "$path"; exit; fi
done`

/** Refuses targets with a link along the path, which would redirect the archive. */
export async function requireFolders(cluster: Cluster, pod: string, targets: string[]): Promise<void> {
  const paths = new Set<string>()
  for (const target of targets) {
    const parts = toPathParts(target)
    parts.forEach((_, index) => {
      paths.add(`/${parts.slice(0, index + 1).join('/')}`)
    })
  }
  if (paths.size === 0) return
  const found = await runScript(cluster, pod, CHECK_FOLDERS_SCRIPT, [...paths])
  const [, kind, path = ''] = /^(link|file) (.*)$/s.exec(found) ?? []
  if (kind) throw createUploadError(path, kind === 'link' ? 'is a link in the image' : 'is not a folder')
}

/** Runs a script of our own in the main container and returns its output. */
export async function runScript(
  cluster: Cluster,
  pod: string,
  script: string,
  args: string[],
  input?: AsyncIterable<Buffer>,
): Promise<string> {
  const target = { namespace: cluster.namespace, pod, container: MAIN }
  const options = { input, timeoutMs: input ? TRANSFER_TIMEOUT_MS : SCRIPT_TIMEOUT_MS }
  const { code, output, errors } = await runExec(
    cluster.kubernetes,
    target,
    buildScriptCommand(script, ...args),
    options,
  )
  if (code !== 0) throw new SandboxUnavailable(`A sandbox could not be set up: ${errors || `code ${code}`}`)
  return output.toString()
}

const NOT_FOUND_CODE = 44
/** Script that packs a path. Nothing is packed if a parent is a link or the path does not exist. */
const PACK_SCRIPT = `parent=$1; name=$2; shift 2
for above; do if [ -L "$above" ] || [ ! -d "$above" ]; then exit ${NOT_FOUND_CODE}; fi; done
cd -- "$parent" || exit ${NOT_FOUND_CODE}
if [ ! -e "$name" ] && [ ! -L "$name" ]; then exit ${NOT_FOUND_CODE}; fi
call tar --create --file=- --format=posix --numeric-owner --one-file-system -- "$name"`

type CollectTarget = { pod: string; container: TransferContainer }

/** Collects a path of a dead sandbox through the filter. Returns undefined if it does not exist or is behind a link. */
export async function collectPath(
  cluster: Cluster,
  { pod, container }: CollectTarget,
  path: string,
  options: Omit<TarFilterOptions, 'folder'>,
): Promise<FilteredTar | undefined> {
  const parts = toPathParts(path)
  const above = parts.slice(0, -1).map((_, index) => `/${parts.slice(0, index + 1).join('/')}`)
  const args = [posix.join('/', ...parts.slice(0, -1)), parts.at(-1) ?? '.', ...above]
  const exec = { command: buildCommandIn(container, PACK_SCRIPT, ...args), timeoutMs: TRANSFER_TIMEOUT_MS }
  const { kubernetes, namespace } = cluster
  return withExec(kubernetes, { namespace, pod, container }, exec, async (stream) => {
    const errors = collectErrors(stream)
    await stream.end()
    const found = await filterTar(stream.output, { ...options, folder: cluster.folder })
    // The filter stops reading at its limits. Otherwise a lost stream has thrown an error by now.
    const isComplete = stream.output.readableEnded
    if (isComplete && (await stream.code) === NOT_FOUND_CODE) {
      found.tar.destroy()
      return undefined
    }
    for (const [, socket = ''] of errors().matchAll(/tar: (.+): socket ignored/g)) found.leftOut.push(socket)
    return found
  })
}
