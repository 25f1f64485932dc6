import { openAsBlob } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { WrongUse } from './failure.ts'

/**
 * Reads a .tar.gz, or packs a folder without its `.git`. With `omitsFolder`, paths in the archive do not begin with the name
 * of the folder. Modification times are omitted, so that the same folder always gives the same archive.
 */
export async function readArchive(source: string, { omitsFolder }: { omitsFolder: boolean }): Promise<Blob> {
  const path = resolve(source)
  const stats = await stat(path).catch(() => undefined)
  if (!stats) throw new WrongUse(`${source} does not exist.`)
  if (stats.isFile()) return requireGzip(path, source)
  const { create } = await import('tar')
  const filter = (entry: string) => !entry.split('/').includes('.git')
  const [cwd, name] = omitsFolder ? [path, '.'] : [dirname(path), basename(path)]
  const archive = create({ gzip: true, cwd, portable: true, noMtime: true, filter }, [name])
  return new Blob([new Uint8Array(await buffer(archive))])
}

/** First bytes of every gzip file. */
const GZIP_MAGIC = [0x1f, 0x8b]

async function requireGzip(path: string, source: string): Promise<Blob> {
  const blob = await openAsBlob(path)
  const start = new Uint8Array(await blob.slice(0, GZIP_MAGIC.length).arrayBuffer())
  if (GZIP_MAGIC.every((byte, index) => start[index] === byte)) return blob
  throw new WrongUse(`${source} is not a .tar.gz. Use a gzipped tar archive or a folder.`)
}
