import type { Fields, Value } from './fields.ts'
import { MAIN_SERVICE, readService } from './settings.ts'
import type { TaskArtifact } from './task.ts'

/** Reads `artifacts`: each is a path or a table. */
export const readArtifacts = (fields: Fields): TaskArtifact[] =>
  fields.list('artifacts', (value, path) => fields.open(toTable(value), path, readArtifact)) ?? []

const toTable = (value: Value): Value => (typeof value === 'string' ? { source: value } : value)

function readArtifact(fields: Fields): TaskArtifact {
  const source = fields.requiredText('source')
  const service = readService(fields)
  if (hasParent(source)) fields.refuse('source', 'invalid_value', 'The path must not contain "..".')
  if (service !== MAIN_SERVICE && !isAbsolute(source)) {
    fields.refuse('source', 'invalid_value', 'The path must be absolute for a service other than main.')
  }
  return { source, destination: readDestination(fields), exclude: fields.texts('exclude') ?? [], service }
}

/** Reads the path under which the artifact is stored in the folder of the trial. */
function readDestination(fields: Fields): string | null {
  const destination = fields.text('destination') || null
  const problem = destination === null ? undefined : checkDestination(destination)
  if (problem) fields.refuse('destination', 'invalid_value', problem)
  return destination
}

function checkDestination(path: string): string | undefined {
  if (path.includes('\\')) return 'The path must use forward slashes.'
  if (path.startsWith('/')) return 'The path must be relative.'
  if (partsOf(path).length === 0) return 'The path must name a file or a folder.'
  if (hasParent(path)) return 'The path must not contain "..".'
  return partsOf(path).join('/') === 'manifest.json'
    ? 'manifest.json is reserved for the list of artifacts.'
    : undefined
}

const partsOf = (path: string): string[] => path.split('/').filter((part) => part !== '' && part !== '.')

const hasParent = (path: string): boolean => partsOf(path).includes('..')

const isAbsolute = (path: string): boolean => path.startsWith('/') || /^[A-Za-z]:[/\\]/.test(path)
