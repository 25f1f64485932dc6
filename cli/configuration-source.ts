import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, join, relative, resolve, sep } from 'node:path'
import type { z } from 'zod'
import type { ConfigurationSummary, NewConfiguration } from '../src/configurations/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { WrongUse } from './failure.ts'
import type { Service } from './service.ts'
import { note, type Shell } from './shell.ts'

type NewConfigurationInput = z.input<typeof NewConfiguration>
type FileInput = NonNullable<NewConfigurationInput['files']>[number]

export const loadContract = () => import('../src/configurations/schema.ts')

/** Maximum number of files that are read. The service accepts fewer; the limit bounds the work if a folder is wrong. */
const FILES_MAX = 1000

/** Reads the files of a configuration: a single file, or all files of a folder except `.git`. */
export async function readConfigurationFiles(source: string): Promise<FileInput[]> {
  const path = resolve(source)
  const stats = await stat(path).catch(() => undefined)
  if (!stats) throw new WrongUse(`${source} does not exist.`)
  if (stats.isFile()) return [await readConfigurationFile(path, basename(path))]
  const files: FileInput[] = []
  for (const filePath of (await listFiles(path)).sort())
    files.push(await readConfigurationFile(filePath, relative(path, filePath).split(sep).join('/')))
  if (files.length === 0) throw new WrongUse(`${source} has no files.`)
  return files
}

async function listFiles(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !relative(folder, path).split(sep).includes('.git'))
  if (files.length > FILES_MAX) throw new WrongUse(`${folder} has ${files.length} files. Choose a smaller folder.`)
  return files
}

async function readConfigurationFile(path: string, name: string): Promise<FileInput> {
  const text = await readText(path)
  const executable = ((await stat(path)).mode & 0o100) !== 0
  return executable ? { path: name, text, executable } : { path: name, text }
}

async function readText(path: string): Promise<string> {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(await readFile(path))
  } catch (error) {
    if (error instanceof TypeError)
      throw new WrongUse(`${path} is not UTF-8 text. Configurations hold text files only.`)
    throw error
  }
}

/** Creates a configuration, or returns the version that has this content. */
export async function createConfiguration(
  shell: Shell,
  service: Service,
  body: NewConfigurationInput,
): Promise<ConfigurationSummary> {
  const { createConfiguration: endpoint, NewConfiguration: Body } = await loadContract()
  const { success, data, error } = Body.safeParse(body)
  const [issue] = error?.issues ?? []
  if (!success) throw new WrongUse(`Invalid configuration. ${issue?.path.join('.') || 'Root'}: ${issue?.message}.`)
  const response = await call(service, endpoint, { params: { org: service.org }, body: data })
  const reference = formatReference(response.body)
  note(shell, response.status === 201 ? `Created configuration ${reference}.` : `Using configuration ${reference}.`)
  return response.body
}

export const formatReference = ({ name, version }: { name: string; version: number }): string => `${name}@${version}`

/**
 * Resolves the values of `--configuration`: `none`, the name of a configuration, or a path. From a path, a configuration is
 * created that is named after it. Returns references, and undefined for `none` or if there are no values.
 */
export async function resolveConfigurations(
  shell: Shell,
  service: Service,
  values: readonly string[],
): Promise<(string | undefined)[]> {
  const references: (string | undefined)[] = []
  for (const value of values) references.push(await resolveConfiguration(shell, service, value))
  return references.length === 0 ? [undefined] : references
}

async function resolveConfiguration(shell: Shell, service: Service, value: string): Promise<string | undefined> {
  if (value === 'none') return undefined
  const isPath = value.includes('/') || value.startsWith('.') || (await stat(value).catch(() => undefined))
  if (!isPath) return value
  const files = await readConfigurationFiles(value)
  return formatReference(await createConfiguration(shell, service, { name: toConfigurationName(value), files }))
}

/** Derives a name from a path: `./AGENTS.md` becomes `agents.md`. */
function toConfigurationName(path: string): string {
  const name = basename(resolve(path))
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .replace(/^[^a-z0-9]+/, '')
    .slice(0, 63)
  if (name !== '' && name !== 'none') return name
  throw new WrongUse(
    `No name can be derived from ${path}. Create the configuration first: assay configurations create <name> ${path}`,
  )
}
