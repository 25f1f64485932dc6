import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../../scripts/files.ts'
import { equippedRootfs } from './base-image.ts'
import { type Dockerd, importImage } from './dockerd.ts'

const run = promisify(execFile)

const NODE_IMAGE = 'node:24-bookworm-slim'
const NODE = join(ROOT, `node_modules/node-linux-${process.arch}/bin/node`)

const GIT = 'apt-get update && apt-get install -y --no-install-recommends ca-certificates git openssh-client'

/** Imports an image with the Node of this project, npm and git, which uses the npm registry of this machine. */
export async function importNodeImage(dockerd: Dockerd): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-node-image-'))
  try {
    await run('cp', ['-a', `${await equippedRootfs('git', GIT, 'bookworm')}/.`, folder])
    await addNode(folder)
    await importImage(dockerd, NODE_IMAGE, folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function addNode(folder: string): Promise<void> {
  const [bin, modules] = [join(folder, 'usr/local/bin'), join(folder, 'usr/local/lib/node_modules')]
  await mkdir(modules, { recursive: true })
  const { stdout: program } = await run('sh', ['-c', 'command -v npm'])
  const npm = dirname(dirname(await realpath(program.trim())))
  await run('cp', [NODE, join(bin, 'node')])
  await run('cp', ['-r', npm, join(modules, 'npm')])
  await symlink('../lib/node_modules/npm/bin/npm-cli.js', join(bin, 'npm'))
  const { stdout: registry } = await run('npm', ['config', 'get', 'registry'], { cwd: tmpdir() })
  await mkdir(join(folder, 'usr/local/etc'), { recursive: true })
  // The certificates of this machine, which `equippedRootfs` copies.
  await writeFile(
    join(folder, 'usr/local/etc/npmrc'),
    `registry=${registry.trim()}\ncafile=/usr/local/share/machine.crt\n`,
  )
}
