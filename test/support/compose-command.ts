import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { equippedRootfs } from './base-image.ts'

const run = promisify(execFile)

/** The program alone, without the packages that its package recommends. */
const DOWNLOAD = `apt-get update
cd /tmp && apt-get download docker-compose
dpkg --extract docker-compose_*.deb /opt/compose && rm docker-compose_*.deb`

/** Returns the path of Debian's Docker Compose 2. */
export async function findCompose(): Promise<string> {
  const rootfs = await equippedRootfs('compose', DOWNLOAD, 'trixie')
  const { stdout } = await run('find', [
    join(rootfs, 'opt/compose'),
    '-type',
    'f',
    '-executable',
    '-name',
    'docker-compose',
  ])
  const [program] = stdout.split('\n')
  if (!program) throw new Error('The package docker-compose contains no program docker-compose.')
  return program
}
