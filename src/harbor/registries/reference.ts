import { type Digest, isDigest } from '../../platform/blobs/blob.ts'
import { sanitizeText } from '../report.ts'

/** A dataset and its version. */
export type DatasetReference = { org: string; name: string; ref: DatasetRef }

/** A version of a dataset. Tags can move; revisions and digests cannot. */
export type DatasetRef =
  | { kind: 'tag'; tag: string }
  | { kind: 'revision'; revision: number }
  | { kind: 'digest'; digest: Digest }

export const LATEST = 'latest'

const PART = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/
const TAG = /^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$/
/** Fits into 32 bits, as in the registry. */
const REVISION = /^\d{1,9}$/

/** Parses `org/name` or `org/name@ref` as Harbor does: the last @ separates, digits are a revision. */
export function parseReference(text: string): DatasetReference | { refused: string } {
  const at = text.lastIndexOf('@')
  const [path, ref] = at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
  const [org = '', name, ...rest] = path.split('/')
  if (name === undefined) return { refused: `Write the dataset as org/name: ${sanitizeText(text)} has no slash.` }
  if (rest.length > 0 || !isNamePart(org) || !isNamePart(name))
    return { refused: `${sanitizeText(path)} is not org/name.` }
  const read = parseRef(ref)
  return read
    ? { org, name, ref: read }
    : { refused: `${sanitizeText(ref)} is not a tag, a revision or a sha256: digest.` }
}

function parseRef(text: string): DatasetRef | undefined {
  if (text === '') return { kind: 'tag', tag: LATEST }
  if (/^\d+$/.test(text)) return REVISION.test(text) ? { kind: 'revision', revision: Number(text) } : undefined
  if (text.startsWith('sha256:')) return isDigest(text) ? { kind: 'digest', digest: text } : undefined
  return TAG.test(text) ? { kind: 'tag', tag: text } : undefined
}

/** Validates an organisation or dataset name, which becomes part of paths. */
export const isNamePart = (text: string): boolean => PART.test(text) && !text.includes('..')

/** Formats a version as it is written after the @. */
export function formatRef(ref: DatasetRef): string {
  if (ref.kind === 'tag') return ref.tag
  return ref.kind === 'digest' ? ref.digest : String(ref.revision)
}
