import type { Readable } from 'node:stream'
import { SandboxUnavailable } from '../sandbox.ts'
import { type Cluster, MAIN } from './cluster.ts'
import { openExec } from './exec-stream.ts'
import { type FileListing, isAtOrBelow, type ListedFile, RUNTIME_PATHS } from './listing.ts'
import { words } from './tools.ts'

/** A sandbox with more files than this is not listed. */
const LISTING_MAX_BYTES = 256e6
const LISTING_MS = 10 * 60_000

/** Lists all files of a sandbox outside of its mounts. Only while no command runs in it. */
export async function listFiles(cluster: Cluster, pod: string): Promise<FileListing> {
  const { kubernetes, namespace } = cluster
  const find = words('find', '/', '-xdev', '-printf', '%y %C@ %s %p\\0')
  const stream = await openExec(kubernetes, { namespace, pod, container: MAIN }, find)
  const timer = setTimeout(() => stream.close(), LISTING_MS)
  try {
    const files = await parseListing(stream.output)
    await stream.code
    return files
  } finally {
    clearTimeout(timer)
    stream.close()
  }
}

async function parseListing(output: Readable): Promise<FileListing> {
  const files = new Map<string, ListedFile>()
  let rest = ''
  let bytes = 0
  for await (const chunk of output.setEncoding('latin1')) {
    bytes += chunk.length
    if (bytes > LISTING_MAX_BYTES) throw new SandboxUnavailable('The sandbox has too many files to list them.')
    const lines = (rest + chunk).split('\0')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const [type = '', changedAt = '', size = ''] = line.split(' ', 3)
      const path = line.slice(type.length + changedAt.length + size.length + 3)
      if (!isAtOrBelow(path, RUNTIME_PATHS)) files.set(path, { type, changedAt, bytes: Number(size) })
    }
  }
  return files
}
