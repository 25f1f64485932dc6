import { openAsBlob } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { WrongUse } from './failure.ts'

/**
 * A folder is packed as it lies there, without the history of its repository; `inside` leaves its own name out, too.
 * Without times: the same folder is the same archive, and is sent once.
 */
export async function archiveOf(source: string, { inside }: { inside: boolean }): Promise<Blob> {
  const path = resolve(source)
  const found = await stat(path).catch(() => undefined)
  if (!found) throw new WrongUse(`There is no ${source}.`)
  if (found.isFile()) return gzipOf(path, source)
  const { create } = await import('tar')
  const filter = (entry: string) => !entry.split('/').includes('.git')
  const [cwd, name] = inside ? [path, '.'] : [dirname(path), basename(path)]
  return new Blob([
    new Uint8Array(await buffer(create({ gzip: true, cwd, portable: true, noMtime: true, filter }, [name]))),
  ])
}

const GZIP = [0x1f, 0x8b]

async function gzipOf(path: string, source: string): Promise<Blob> {
  const blob = await openAsBlob(path)
  const start = new Uint8Array(await blob.slice(0, GZIP.length).arrayBuffer())
  if (GZIP.every((byte, place) => start[place] === byte)) return blob
  throw new WrongUse(`${source} is not a .tar.gz. Give an archive that gzip has packed, or a folder.`)
}
