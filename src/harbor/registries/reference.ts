import { type Digest, isDigest } from '../../platform/blobs/blob.ts'
import { shown } from '../report.ts'

/** Which dataset, and which version of it. */
export type Reference = { org: string; name: string; ref: Ref }

/** Tags move; revisions and digests do not. */
export type Ref =
  | { kind: 'tag'; tag: string }
  | { kind: 'revision'; revision: number }
  | { kind: 'digest'; digest: Digest }

export const LATEST = 'latest'

const PART = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/
const TAG = /^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$/
/** The registry counts in 32 bits. */
const REVISION = /^\d{1,9}$/

/** `org/name` or `org/name@ref`, as Harbor reads it: the last @ counts, digits are a revision. */
export function readReference(text: string): Reference | { refused: string } {
  const at = text.lastIndexOf('@')
  const [path, ref] = at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
  const [org = '', name, ...rest] = path.split('/')
  if (name === undefined) return { refused: `Write it as org/name: ${shown(text)} has no slash.` }
  if (rest.length > 0 || !isPart(org) || !isPart(name)) return { refused: `${shown(path)} is not org/name.` }
  const read = readRef(ref)
  return read ? { org, name, ref: read } : { refused: `${shown(ref)} is no tag, revision or sha256: digest.` }
}

function readRef(text: string): Ref | undefined {
  if (text === '') return { kind: 'tag', tag: LATEST }
  if (/^\d+$/.test(text)) return REVISION.test(text) ? { kind: 'revision', revision: Number(text) } : undefined
  if (text.startsWith('sha256:')) return isDigest(text) ? { kind: 'digest', digest: text } : undefined
  return TAG.test(text) ? { kind: 'tag', tag: text } : undefined
}

/** What may stand before and after the slash. It becomes a part of paths. */
export const isPart = (text: string): boolean => PART.test(text) && !text.includes('..')

/** As it is written after the @. */
export function refText(ref: Ref): string {
  if (ref.kind === 'tag') return ref.tag
  return ref.kind === 'digest' ? ref.digest : String(ref.revision)
}
