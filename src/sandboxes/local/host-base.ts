import { copyFile, lstat, mkdir, readlink, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { runProgram } from '../kernel/run-program.ts'
import { SandboxUnsupported } from '../sandbox.ts'
import { BARE, type ImageStore, makeLayer, type StoredImage, saveImage } from './image-store.ts'

/** System files without which programs do not start, and nothing that is anybody's. */
const TREES = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']
const FILES = [
  ...['passwd', 'group', 'nsswitch.conf', 'ld.so.cache', 'ld.so.conf', 'os-release', 'debian_version', 'protocols'],
  ...['services', 'localtime', 'mime.types'],
]
const FOLDERS = ['alternatives', 'ld.so.conf.d', 'ssl/certs', 'python3', 'perl']
const EMPTY = ['dev', 'proc', 'sys', 'run', 'tmp', 'var/tmp', 'var/lib', 'root', 'home', 'mnt', 'opt', 'srv', 'etc']

/** The machine's own programs as a base image, read-only. Only where the operator allows it; results say so. */
export async function hostBase(store: ImageStore): Promise<StoredImage> {
  const binds: string[] = []
  const links: [string, string][] = []
  for (const path of TREES) {
    const stats = await lstat(path).catch(() => undefined)
    if (stats?.isSymbolicLink()) links.push([path, await readlink(path)])
    if (stats?.isDirectory()) binds.push(path)
  }
  const inside = binds.find((path) => `${store.folder}/`.startsWith(`${path}/`))
  if (inside) throw new SandboxUnsupported(`${inside} holds the data folder, so it cannot be a base image.`)

  const layer = await makeLayer(store, async (draft) => {
    for (const path of [...EMPTY, ...binds]) await mkdir(join(draft, path), { recursive: true, mode: 0o755 })
    for (const [path, target] of links) await symlink(target, join(draft, path))
    await runProgram('chmod', ['1777', join(draft, 'tmp'), join(draft, 'var/tmp')])
    for (const name of FILES) await copyFile(join('/etc', name), join(draft, 'etc', name)).catch(ignoreMissing)
    for (const name of FOLDERS) await copyFolder(join('/etc', name), join(draft, 'etc', name))
  })
  const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' }
  return saveImage(store, { ...BARE, layers: [layer], binds, env, base: 'host-base' })
}

async function copyFolder(source: string, target: string): Promise<void> {
  const stats = await lstat(source).catch(ignoreMissing)
  if (!stats?.isDirectory()) return
  await mkdir(dirname(target), { recursive: true })
  await runProgram('cp', ['-a', '-T', '--', source, target])
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
