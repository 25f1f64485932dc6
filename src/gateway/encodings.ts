import type { Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'

const DECODERS: Record<string, () => Transform> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
}

/** Null: there is nothing to undo. Undefined: nobody knows how. */
export function decoderFor(encoding: string | string[] | undefined): Transform | null | undefined {
  if (encoding === undefined || encoding === '' || encoding === 'identity') return null
  return typeof encoding === 'string' ? DECODERS[encoding.trim().toLowerCase()]?.() : undefined
}
