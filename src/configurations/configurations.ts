import { createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { listHarnesses } from '../catalog/harnesses.ts'
import type { Harness } from '../harnesses/harness.ts'
import { type Blobs, isDigest } from '../platform/blobs/blob.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toCreationCursor, toPage } from '../platform/http/page.ts'
import { newId } from '../platform/ids.ts'
import { type FieldError, invalidRequest, notFound, Problem, toPointerStep } from '../platform/problem.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import {
  type Configuration,
  ConfigurationContent,
  type ConfigurationSummary,
  configurationsFull,
  type NewConfiguration,
} from './schema.ts'
import * as rows from './sql.ts'

export type ConfigurationDeps = { db: Db; blobs: Blobs }

type CreatedConfiguration = { kind: 'created' | 'same'; configuration: ConfigurationSummary }

const VERSIONS_MAX = 10_000
const STORED_MB_MAX = 1000

/** Creates a version of a configuration. Versions are immutable; the same content has one version per name. */
export async function createConfiguration(
  { db, blobs }: ConfigurationDeps,
  by: AuditActor,
  { name, ...input }: NewConfiguration,
): Promise<CreatedConfiguration> {
  requireHarnessOptions(input, await listHarnesses(db, by.workspaceId))
  const bytes = Buffer.from(toCanonicalText(input))
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}` as const
  const findSameContent = async (from: Db) =>
    (await rows.listVersions(from, by.workspaceId, name)).find((row) => row.digest === digest)
  const existing = await findSameContent(db)
  if (existing) return { kind: 'same', configuration: toSummary(existing) }
  await requireQuota(db, by.workspaceId, bytes.length)
  // The blob is stored before the row, so that a row never names content that is not stored.
  await blobs.put(bytes, { expect: digest })
  return transact(db, async (tx) => {
    await rows.lockConfigurations(tx, by.workspaceId)
    const concurrent = await findSameContent(tx)
    if (concurrent) return { kind: 'same', configuration: toSummary(concurrent) }
    await requireQuota(tx, by.workspaceId, bytes.length)
    const [newest] = await rows.listVersions(tx, by.workspaceId, name)
    const row = await rows.insertConfiguration(tx, {
      id: newId(),
      workspace_id: by.workspaceId,
      name,
      version: (newest?.version ?? 0) + 1,
      digest,
      bytes: bytes.length,
      files: input.files.map(({ path, text }) => ({ path, bytes: Buffer.byteLength(text) })),
    })
    const detail = { version: String(row.version), digest }
    await record(tx, { ...by, action: 'configuration.created', subject: name, detail })
    return { kind: 'created', configuration: toSummary(row) }
  })
}

/** Throws a problem if the workspace cannot store another version of this size. */
async function requireQuota(db: Db, workspaceId: string, bytes: number): Promise<void> {
  const { versions, storedBytes } = await rows.measureConfigurations(db, workspaceId)
  if (versions >= VERSIONS_MAX)
    throw new Problem(configurationsFull, `A workspace can have at most ${VERSIONS_MAX} versions of configurations.`)
  if (storedBytes + bytes > STORED_MB_MAX * 1_000_000)
    throw new Problem(configurationsFull, `A workspace can store at most ${STORED_MB_MAX} MB of configurations.`)
}

/** Serializes content independently of the order of files and harnesses. Digests of stored versions depend on it. */
function toCanonicalText(content: ConfigurationContent): string {
  const sortByKey = <T>(items: readonly T[], key: (item: T) => string): T[] =>
    items.toSorted((a, b) => (key(a) < key(b) ? -1 : 1))
  return JSON.stringify({
    files: sortByKey(content.files, ({ path }) => path).map(({ path, text, executable }) => ({
      path,
      text,
      executable,
    })),
    instructionPrefix: content.instructionPrefix,
    instructionSuffix: content.instructionSuffix,
    mcpServers: sortByKey(content.mcpServers, ({ name }) => name).map((server) =>
      'url' in server ? { name: server.name, url: server.url } : { name: server.name, command: server.command },
    ),
    harnesses: Object.fromEntries(
      sortByKey(Object.entries(content.harnesses), ([id]) => id).map(([id, options]) => [
        id,
        { version: options.version, arguments: options.arguments },
      ]),
    ),
  })
}

/** Throws a problem that lists every unknown harness and every argument that a harness does not allow. */
function requireHarnessOptions({ harnesses }: ConfigurationContent, available: readonly Harness[]): void {
  const errors = Object.entries(harnesses).flatMap(([id, options]): FieldError[] => {
    const pointer = `/harnesses/${toPointerStep(id)}`
    const harness = available.find((each) => each.id === id)
    if (!harness) {
      const ids = available.map((each) => each.id).join(', ')
      return [{ pointer, code: 'unknown_harness', message: `Unknown harness. This workspace has ${ids}.` }]
    }
    return options.arguments.flatMap((argument, index) => {
      if (isAllowedArgument(harness, argument)) return []
      const message = explainArguments(harness)
      return [{ pointer: `${pointer}/arguments/${index}`, code: 'argument_not_allowed', message }]
    })
  })
  const [first] = errors
  if (first) throw new Problem(invalidRequest, `${first.pointer}: ${first.message}`, { errors })
}

/** Accepts only `flag=value`: without the `=`, a program could take the next argument for the value. */
function isAllowedArgument({ allowedArguments = [] }: Harness, argument: string): boolean {
  const separator = argument.indexOf('=')
  if (separator < 0) return false
  const [flag, value] = [argument.slice(0, separator), argument.slice(separator + 1)]
  return allowedArguments.some((rule) => rule.flag === flag && rule.value.test(value))
}

function explainArguments({ name, allowedArguments = [] }: Harness): string {
  if (allowedArguments.length === 0) return `${name} allows no additional arguments.`
  return `${name} allows only ${allowedArguments.map(({ example }) => example).join(' and ')}.`
}

export async function listConfigurationPage(db: Db, workspaceId: string, page: Page) {
  const found = await rows.listConfigurationRows(db, workspaceId, page)
  const { items, nextCursor } = toPage(found, page.limit, toCreationCursor)
  return { configurations: items.map(toSummary), nextCursor }
}

export async function readConfiguration(
  deps: ConfigurationDeps,
  workspaceId: string,
  name: string,
  version?: number,
): Promise<Configuration> {
  const configuration = await findVersion(deps, workspaceId, name, version)
  if (configuration) return configuration
  throw new Problem(notFound, `Configuration ${version === undefined ? name : `${name}@${version}`} not found`)
}

/** Finds a configuration by `name` or `name@version`. */
export function findConfiguration(
  deps: ConfigurationDeps,
  workspaceId: string,
  reference: string,
): Promise<Configuration | undefined> {
  const [name = '', version] = reference.split('@')
  return findVersion(deps, workspaceId, name, version === undefined ? undefined : Number(version))
}

/** Finds a version of a configuration, by default the newest. */
async function findVersion(
  { db, blobs }: ConfigurationDeps,
  workspaceId: string,
  name: string,
  version: number | undefined,
): Promise<Configuration | undefined> {
  const versions = await rows.listVersions(db, workspaceId, name)
  const row = version === undefined ? versions[0] : versions.find((each) => each.version === version)
  return row && { ...toIdentity(row), ...(await readContent(blobs, row.digest)) }
}

/** Reads content by its digest. Throws if the blob is missing or damaged. */
export async function readContent(blobs: Blobs, digest: string): Promise<ConfigurationContent> {
  if (!isDigest(digest)) throw new Error('Invalid digest in database row')
  return ConfigurationContent.parse(JSON.parse((await buffer(await blobs.get(digest))).toString('utf8')))
}

const toIdentity = ({ name, version, digest, created_at }: rows.ConfigurationRow) => ({
  name,
  version,
  digest,
  createdAt: created_at.toISOString(),
})

const toSummary = (row: rows.ConfigurationRow): ConfigurationSummary => ({ ...toIdentity(row), files: row.files })
