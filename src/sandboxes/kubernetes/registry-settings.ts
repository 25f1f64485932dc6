import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { z } from 'zod'
import { parseUntrustedJson } from '../../platform/untrusted-json.ts'
import { SandboxUnavailable } from '../sandbox.ts'

const HINT = 'must be a registry and a path, such as images.example.com/assay'
/** A registry, recognised by a dot or a port as elsewhere, and a path. */
const Repository = z
  .string()
  .max(200)
  .regex(/^(localhost|[a-z0-9-]+(\.[a-z0-9-]+)+|[a-z0-9-]+(?=:))(:\d{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)+$/, HINT)

/** The registry to which images of Dockerfiles are pushed. Paths are relative to the file of the settings. */
export const RegistrySettings = z
  .strictObject({
    /** Registry and path without a tag. The digest of a Dockerfile and its context becomes the tag. */
    repository: Repository,
    /** Address of the same repository for the nodes of the cluster. Default: `repository`. */
    nodeRepository: Repository.optional(),
    username: z.string().min(1).optional(),
    passwordFile: z.string().min(1).optional(),
    /** Path of a file in the format of Docker's config.json, in place of user name and password. */
    authFile: z.string().min(1).optional(),
    /** True for plain HTTP. */
    insecure: z.boolean().default(false),
    /** False for a worker that uses images which other workers have built. */
    builds: z.boolean().default(true),
  })
  .refine(
    ({ username, passwordFile }) => (username === undefined) === (passwordFile === undefined),
    'set username and passwordFile together',
  )
  .refine(
    ({ username, authFile }) => username === undefined || authFile === undefined,
    'set either username and passwordFile, or authFile',
  )

export type RegistrySettings = z.infer<typeof RegistrySettings>

/** Resolves the paths of the settings. */
export function locateRegistryFiles(settings: RegistrySettings, folder: string): RegistrySettings {
  const locate = (path: string | undefined) => (path === undefined ? undefined : resolve(folder, path))
  return { ...settings, passwordFile: locate(settings.passwordFile), authFile: locate(settings.authFile) }
}

export type RegistryCredential = { username: string; password: string }

/** Returns the host of a repository, with its port. */
export const registryHost = (repository: string): string => repository.split('/')[0] ?? ''

/** Reads the credential, for every use, so that it can be renewed. Returns undefined if none is set. */
export async function readCredential(settings: RegistrySettings): Promise<RegistryCredential | undefined> {
  const { username, passwordFile, authFile, repository } = settings
  if (username !== undefined && passwordFile !== undefined) {
    const password = (await readSecretFile(passwordFile, 'passwordFile')).replace(/\r?\n$/, '')
    return { username, password }
  }
  if (authFile === undefined) return undefined
  return parseAuthFile(await readSecretFile(authFile, 'authFile'), registryHost(repository))
}

const readSecretFile = (path: string, setting: string): Promise<string> =>
  readFile(path, 'utf8').catch(() => {
    throw new SandboxUnavailable(`${path} cannot be read. Check registry.${setting} in the Kubernetes settings.`)
  })

const AuthFile = z.object({ auths: z.record(z.string(), z.object({ auth: z.string().optional() })).default({}) })

/** Finds the credential of a registry in the text of Docker's config.json. No message quotes the text. */
export function parseAuthFile(text: string, host: string): RegistryCredential {
  const parsed = AuthFile.safeParse(parseUntrustedJson(text))
  if (!parsed.success) throw createAuthFileError('it is not in the format of the config.json of Docker')
  const names = host === 'docker.io' ? ['docker.io', 'index.docker.io'] : [host]
  const entry = Object.entries(parsed.data.auths).find(([key]) =>
    names.includes(key.replace(/^https?:\/\//, '').replace(/\/.*$/, '')),
  )
  const decoded = Buffer.from(entry?.[1].auth ?? '', 'base64').toString()
  const colon = decoded.indexOf(':')
  if (colon < 1)
    throw createAuthFileError(
      `it has no user name and password for ${host}. Credential helpers are not run: use the file of a machine without them`,
    )
  return { username: decoded.slice(0, colon), password: decoded.slice(colon + 1) }
}

const createAuthFileError = (reason: string): SandboxUnavailable =>
  new SandboxUnavailable(`registry.authFile of the Kubernetes settings cannot be used: ${reason}.`)

/** Formats a credential as programs of containers read it. Without a credential, they must not use those of this machine. */
export function formatAuthFile(repository: string, credential: RegistryCredential | undefined): string {
  if (credential === undefined) return JSON.stringify({ auths: {} })
  const auth = Buffer.from(`${credential.username}:${credential.password}`).toString('base64')
  return JSON.stringify({ auths: { [registryHost(repository)]: { auth } } })
}
