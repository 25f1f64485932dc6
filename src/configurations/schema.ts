import { z } from 'zod'
import { endpoint } from '../platform/http/endpoint.ts'
import { pageQuery, queryInteger } from '../platform/http/page.ts'
import type { ProblemKind } from '../platform/problem.ts'

const FILES_MAX = 200
const BYTES_MAX = 1_000_000
const SERVERS_MAX = 20
const ARGUMENTS_MAX = 20
const HARNESSES_MAX = 16

const ConfigurationName = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9._-]{0,62}$/,
    'must start with a lower-case letter or a digit and contain only these, dots, hyphens and underscores',
  )
  .refine((name) => name !== 'none', 'must not be none, which means no configuration')

/** Refers to the newest version (`name`) or to a certain one (`name@version`). */
export const ConfigurationRef = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,62}(@[1-9]\d{0,5})?$/, 'must be a name, or a name and a version as in rules@2')
  .describe('Name of a configuration, or name@version. Without a version, the newest one.')

const countBytes = (text: string): number => new TextEncoder().encode(text).length

/** A path below the working directory. */
const FilePath = z
  .string()
  .max(500)
  .check(({ value, issues }) => {
    const fault = findPathFault(value)
    if (fault) issues.push({ code: 'custom', message: fault.message, params: { code: fault.code }, input: value })
  })

function findPathFault(path: string): { code: string; message: string } | undefined {
  const parts = path.split('/')
  if (path.startsWith('/') || /^[A-Za-z]:/.test(path) || /[\p{Cc}\\]/u.test(path))
    return { code: 'path_outside', message: 'must be a relative path with slashes' }
  if (parts.some((part) => part === '' || part === '.' || part === '..'))
    return { code: 'path_outside', message: 'must stay below the working directory, without empty parts, . and ..' }
  if (parts.some((part) => part.toLowerCase() === '.git'))
    return { code: 'path_reserved', message: 'must not be in a folder named .git' }
  if (parts.some((part) => countBytes(part) > 255))
    return { code: 'path_too_long', message: 'must have parts of at most 255 bytes' }
  return undefined
}

const ConfigurationFile = z
  .strictObject({
    path: FilePath.describe('Relative to the working directory of the task.'),
    text: z.string().max(BYTES_MAX),
    executable: z.boolean().default(false),
  })
  .meta({ id: 'ConfigurationFile', description: 'A file that a configuration places in the working directory.' })

type FileInput = { path: string; text: string }

/** Rejects too much content, and paths that could not exist together on every filesystem. */
const Files = z
  .array(ConfigurationFile)
  .max(FILES_MAX)
  .default([])
  .check(({ value, issues }) => {
    const bytes = value.reduce((sum, { text }) => sum + countBytes(text), 0)
    if (bytes > BYTES_MAX)
      issues.push({
        code: 'custom',
        message: `must have at most ${BYTES_MAX} bytes in total, not ${bytes}`,
        params: { code: 'too_big' },
        input: value,
      })
    for (const [index, { path }] of value.entries())
      if (hasConflict(value.slice(0, index), path))
        issues.push({
          code: 'custom',
          message: 'must differ from every other path in more than case, and not be a folder of one',
          params: { code: 'duplicate' },
          path: [index, 'path'],
          input: path,
        })
  })
  .describe('Added to the working directory, or replacing files there, before the agent starts.')

/** Folds the differences that macOS and Windows ignore in paths. */
const toComparedPath = (path: string): string => path.normalize('NFC').toLowerCase()

function hasConflict(others: readonly FileInput[], path: string): boolean {
  const comparedPath = toComparedPath(path)
  return others.some((file) => {
    const other = toComparedPath(file.path)
    return comparedPath === other || comparedPath.startsWith(`${other}/`) || other.startsWith(`${comparedPath}/`)
  })
}

const ServerName = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be letters, digits, hyphens and underscores')

const ServerUrl = z
  .url({ protocol: /^https?$/ })
  .max(2000)
  .refine((url) => URL.canParse(url) && new URL(url).username === '' && new URL(url).password === '', {
    error: 'must not contain a user name or a password',
  })

const ConfigurationServer = z
  .union([
    z.strictObject({
      name: ServerName,
      command: z
        .array(z.string().max(4000))
        .min(1)
        .max(100)
        .describe('Program and arguments of a server that speaks MCP on stdio. It runs in the sandbox of the agent.'),
    }),
    z.strictObject({ name: ServerName, url: ServerUrl.describe('Address of a server that speaks MCP over HTTP.') }),
  ])
  .meta({ id: 'ConfigurationServer', description: 'An MCP server that a configuration gives to the agent.' })

const Servers = z
  .array(ConfigurationServer)
  .max(SERVERS_MAX)
  .default([])
  .check(({ value, issues }) => {
    for (const [index, { name }] of value.entries())
      if (value.findIndex((server) => server.name === name) !== index)
        issues.push({
          code: 'custom',
          message: 'must not repeat the name of another server',
          params: { code: 'duplicate' },
          path: [index, 'name'],
          input: name,
        })
  })
  .describe('MCP servers, in addition to those of the task.')

const HarnessOptions = z
  .strictObject({
    version: z.string().min(1).max(50).optional().describe('Required version of the harness.'),
    arguments: z
      .array(z.string().max(4000))
      .max(ARGUMENTS_MAX)
      .default([])
      .describe('Additional arguments of its program, from the set that the harness allows.'),
  })
  .meta({ id: 'ConfigurationHarness', description: 'Arguments and version of one harness in a configuration.' })

const contentFields = {
  files: Files,
  instructionPrefix: z.string().max(20_000).default('').describe('Text before the instruction of every task.'),
  instructionSuffix: z.string().max(20_000).default('').describe('Text after the instruction of every task.'),
  mcpServers: Servers,
  harnesses: z
    .record(z.string().min(1).max(100), HarnessOptions)
    .refine((harnesses) => Object.keys(harnesses).length <= HARNESSES_MAX, `at most ${HARNESSES_MAX} harnesses`)
    .default({})
    .describe('Options of harnesses, by id. They apply to settings with that harness.'),
}

/** The content of a configuration: everything that its digest covers. */
export const ConfigurationContent = z.object(contentFields)
export type ConfigurationContent = z.infer<typeof ConfigurationContent>

export const NewConfiguration = z.strictObject({ name: ConfigurationName, ...contentFields })
export type NewConfiguration = z.infer<typeof NewConfiguration>

const identityFields = {
  name: z.string(),
  version: z.number().int().min(1).describe('Versions of a name count from 1. They never change.'),
  digest: z.string().describe('SHA-256 of the canonical content.'),
  createdAt: z.iso.datetime(),
}

export const ConfigurationSummary = z
  .object({ ...identityFields, files: z.array(z.object({ path: z.string(), bytes: z.number().int().min(0) })) })
  .meta({ id: 'ConfigurationSummary', description: 'A version of an agent configuration, without its content.' })
export type ConfigurationSummary = z.infer<typeof ConfigurationSummary>

export const Configuration = z.object({ ...identityFields, ...contentFields }).meta({
  id: 'Configuration',
  description: 'A version of an agent configuration, with its content. A version never changes.',
})
export type Configuration = z.infer<typeof Configuration>

/** A configuration as settings and releases name it. */
export const NamedConfiguration = z
  .object({ name: z.string(), version: z.number().int(), digest: z.string() })
  .meta({ id: 'NamedConfiguration', description: 'Name, version and digest of an agent configuration.' })
export type NamedConfiguration = z.infer<typeof NamedConfiguration>

export const configurationsFull = {
  code: 'configurations_full',
  status: 409,
  title: 'Too many configurations',
  meaning:
    'A workspace can have at most 10,000 versions of configurations with 1 GB of content. They cannot be removed.',
} as const satisfies ProblemKind

export const createConfiguration = endpoint({
  id: 'createConfiguration',
  method: 'POST',
  path: '/api/orgs/{org}/configurations',
  summary: 'Create a configuration or a new version of one; the same content returns the same version',
  access: 'write',
  body: NewConfiguration,
  example: { name: 'agents-md', files: [{ path: 'AGENTS.md', text: 'Run the tests before you finish.\n' }] },
  answers: { 200: ConfigurationSummary, 201: ConfigurationSummary },
  problems: [configurationsFull],
  creates: true,
})

export const listConfigurations = endpoint({
  id: 'listConfigurations',
  method: 'GET',
  path: '/api/orgs/{org}/configurations',
  summary: 'List all versions of the configurations, newest first',
  access: 'read',
  query: pageQuery(),
  answers: { 200: z.object({ configurations: z.array(ConfigurationSummary), nextCursor: z.string().nullable() }) },
})

export const readConfiguration = endpoint({
  id: 'readConfiguration',
  method: 'GET',
  path: '/api/orgs/{org}/configurations/{name}',
  summary: 'Read a version of a configuration with its content',
  access: 'read',
  query: z.object({ version: queryInteger().min(1).max(999_999).optional().describe('Default: the newest.') }),
  answers: { 200: Configuration },
})
