import { sanitizeText } from './report.ts'

export type ArchiveReason =
  | 'damaged'
  | 'empty'
  | 'unsafe_path'
  | 'path_too_long'
  | 'path_too_deep'
  | 'duplicate'
  | 'collision'
  | 'under_a_file'
  | 'through_a_link'
  | 'link'
  | 'link_outside'
  | 'special_file'
  | 'sparse'
  | 'too_many_entries'
  | 'file_too_large'
  | 'too_large'
  | 'compressed_too_much'
  | 'too_slow'

/** Thrown for an archive that must not be unpacked. No file of it remains on disk. */
export class ArchiveRefused extends Error {
  override name = 'ArchiveRefused'
  readonly reason: ArchiveReason
  /** Path of the offending entry, if the problem is one entry. */
  readonly path: string | undefined

  constructor(reason: ArchiveReason, message: string, path?: string) {
    super(path === undefined ? message : `${sanitizeText(path)}: ${message}`)
    this.reason = reason
    this.path = path
  }
}
