import type { Fields, Value } from './fields.ts'
import { MAIN_SERVICE, readService } from './settings.ts'
import type { Artifact } from './task.ts'

/** Written as a path, or as a table. */
export const readArtifacts = (fields: Fields): Artifact[] =>
  fields.list('artifacts', (value, path) => fields.open(asTable(value), path, readArtifact)) ?? []

const asTable = (value: Value): Value => (typeof value === 'string' ? { source: value } : value)

function readArtifact(fields: Fields): Artifact {
  const source = fields.requiredText('source')
  const service = readService(fields)
  if (hasParent(source)) fields.refuse('source', 'invalid_value', 'The path must not contain "..".')
  if (service !== MAIN_SERVICE && !isAbsolute(source)) {
    fields.refuse('source', 'invalid_value', 'From another service than main the path must be absolute.')
  }
  return { source, destination: readDestination(fields), exclude: fields.texts('exclude') ?? [], service }
}

/** A path in the folder of the trial, where manifest.json lists what was taken. */
function readDestination(fields: Fields): string | null {
  const destination = fields.text('destination') || null
  const complaint = destination === null ? undefined : destinationComplaint(destination)
  if (complaint) fields.refuse('destination', 'invalid_value', complaint)
  return destination
}

function destinationComplaint(path: string): string | undefined {
  if (path.includes('\\')) return 'The path has forward slashes only.'
  if (path.startsWith('/')) return 'The path must be relative.'
  if (partsOf(path).length === 0) return 'The path must name a file or a folder.'
  if (hasParent(path)) return 'The path must not contain "..".'
  return partsOf(path).join('/') === 'manifest.json' ? 'manifest.json is the list of artifacts.' : undefined
}

const partsOf = (path: string): string[] => path.split('/').filter((part) => part !== '' && part !== '.')

const hasParent = (path: string): boolean => partsOf(path).includes('..')

const isAbsolute = (path: string): boolean => path.startsWith('/') || /^[A-Za-z]:[/\\]/.test(path)
