import { readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { SandboxUnavailable } from '../sandbox.ts'
import { locateRegistryFiles, RegistrySettings } from './registry-settings.ts'

/** Address of an API server and the identity that is presented to it. */
export type KubernetesConnection = {
  server: string
  ca?: string | undefined
  cert?: string | undefined
  key?: string | undefined
  /** Returns the bearer token. Called for every request, because the kubelet replaces the token of a service account. */
  token?: (() => Promise<string>) | undefined
  /** Namespace of the kubeconfig's context or of the service account. */
  namespace?: string | undefined
}

const namedList = <T extends z.ZodType>(field: string, value: T) =>
  z.array(z.object({ name: z.string(), [field]: value })).default([])

const OptionalText = z.string().min(1).optional()
const Cluster = z.object({
  server: z.url(),
  'certificate-authority': OptionalText,
  'certificate-authority-data': OptionalText,
  'insecure-skip-tls-verify': z.boolean().optional(),
})
const User = z.object({
  'client-certificate': OptionalText,
  'client-certificate-data': OptionalText,
  'client-key': OptionalText,
  'client-key-data': OptionalText,
  token: OptionalText,
  tokenFile: OptionalText,
  exec: z.unknown().optional(),
  'auth-provider': z.unknown().optional(),
})
const Context = z.object({ cluster: z.string(), user: z.string(), namespace: OptionalText })
const Kubeconfig = z.object({
  'current-context': OptionalText,
  clusters: namedList('cluster', Cluster),
  users: namedList('user', User),
  contexts: namedList('context', Context),
})

/** Parses a kubeconfig. Relative paths in it are relative to `folder`. */
export async function parseKubeconfig(text: string, folder: string): Promise<KubernetesConnection> {
  const config = readYaml(text)
  const context = readNamed(config.contexts, 'context', Context, config['current-context'])
  const cluster = readNamed(config.clusters, 'cluster', Cluster, context.cluster)
  const user = readNamed(config.users, 'user', User, context.user)
  if (cluster['insecure-skip-tls-verify'])
    throw createKubeconfigError('it disables TLS verification. Set certificate-authority-data instead')
  if (user.exec !== undefined || user['auth-provider'] !== undefined)
    throw createKubeconfigError('its user runs a program to log in. Use the token of a service account instead')
  const read = (path: string | undefined): Promise<string> | undefined =>
    path === undefined ? undefined : readCredentialFile(resolve(folder, path))
  return {
    server: cluster.server,
    ca: decodeBase64(cluster['certificate-authority-data']) ?? (await read(cluster['certificate-authority'])),
    cert: decodeBase64(user['client-certificate-data']) ?? (await read(user['client-certificate'])),
    key: decodeBase64(user['client-key-data']) ?? (await read(user['client-key'])),
    token: openToken(user),
    namespace: context.namespace,
  }
}

function readYaml(text: string): z.infer<typeof Kubeconfig> {
  try {
    return Kubeconfig.parse(parse(text))
  } catch {
    // The parser's message could quote a secret.
    throw createKubeconfigError('it is not a kubeconfig in YAML')
  }
}

function readNamed<T extends z.ZodType>(
  entries: Record<string, unknown>[],
  field: string,
  schema: T,
  name: string | undefined,
): z.infer<T> {
  const entry = entries.find((each) => each.name === name)
  if (entry === undefined) throw createKubeconfigError(`it has no ${field} named ${JSON.stringify(name ?? '')}`)
  return schema.parse(entry[field])
}

const createKubeconfigError = (reason: string): SandboxUnavailable =>
  new SandboxUnavailable(`The kubeconfig cannot be used: ${reason}.`)

const decodeBase64 = (data: string | undefined): string | undefined =>
  data === undefined ? undefined : Buffer.from(data, 'base64').toString()

const readCredentialFile = (path: string): Promise<string> =>
  readFile(path, 'utf8').catch(() => {
    throw new SandboxUnavailable(`${path} cannot be read. Check the paths in the kubeconfig.`)
  })

/** Returns the function that reads the token, or undefined if the user presents a certificate only. */
function openToken({ token, tokenFile }: z.infer<typeof User>): (() => Promise<string>) | undefined {
  if (token !== undefined) return async () => token
  return tokenFile === undefined ? undefined : () => readToken(tokenFile)
}

const readToken = async (path: string): Promise<string> => (await readCredentialFile(path)).trim()

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'

/** Returns the connection of the service account of the pod in which this process runs. */
export async function openInCluster(folder = SERVICE_ACCOUNT): Promise<KubernetesConnection> {
  const read = (name: string): Promise<string> =>
    readFile(join(folder, name), 'utf8').catch(() => {
      throw new SandboxUnavailable(
        'No kubeconfig is set, and this process is not in a pod with a service account. Set kubeconfig.',
      )
    })
  return {
    server: 'https://kubernetes.default.svc',
    ca: await read('ca.crt'),
    token: async () => (await read('token')).trim(),
    namespace: (await read('namespace')).trim(),
  }
}

const ResourceName = z.string().regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/)

/** Settings of the provider, written as YAML. */
const KubernetesSettings = z.strictObject({
  /** Path of a kubeconfig, relative to the file of the settings. Default: the service account of this pod. */
  kubeconfig: z.string().min(1).optional(),
  /** Default: the namespace of the kubeconfig's context or of the service account. */
  namespace: ResourceName.optional(),
  /** Shared by the workers of one deployment, so that each removes the leftovers of dead ones. Default: the id of the data folder. */
  installation: z
    .string()
    .regex(/^[a-z0-9]{1,40}$/)
    .optional(),
  /** Image with Node, glibc, dash, GNU tar, findutils, coreutils and util-linux, such as `node:24-bookworm-slim`. */
  helperImage: z.string().min(1),
  runtimeClass: ResourceName.optional(),
  nodeSelector: z.record(z.string(), z.string()).default({}),
  tolerations: z.array(z.record(z.string(), z.union([z.string(), z.number()]))).default([]),
  pullSecrets: z.array(ResourceName).default([]),
  /** Part of its processor limit that a sandbox reserves on its node. Below 1, sandboxes may share processors. */
  cpuRequest: z.number().positive().max(1).default(1),
  /** Networks that sandboxes reach although the policy denies it, by the names that the self-test prints. */
  acceptReachable: z.array(z.string()).default([]),
  /** Storage for volumes that sandboxes share. Without it, tasks that need such volumes are refused. */
  volumes: z
    .strictObject({
      storageClass: ResourceName,
      size: z
        .string()
        .regex(/^[1-9]\d{0,5}[MGT]i$/)
        .default('10Gi'),
    })
    .optional(),
  /** Registry for images that are built from Dockerfiles. Without it, a task must name its image. */
  registry: RegistrySettings.optional(),
})

export type KubernetesSettings = z.infer<typeof KubernetesSettings>

export function parseSettings(text: string): KubernetesSettings {
  const parsed = KubernetesSettings.safeParse(readSettingsYaml(text))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new SandboxUnavailable(`Invalid Kubernetes settings: ${issue?.path.join('.')}: ${issue?.message}`)
}

function readSettingsYaml(text: string): unknown {
  try {
    return parse(text)
  } catch (error) {
    throw new SandboxUnavailable(`The Kubernetes settings are not YAML: ${String(error)}`, { cause: error })
  }
}

export type OpenedSettings = { settings: KubernetesSettings; connection: KubernetesConnection }

/** Reads a settings file and opens the connection that it names. */
export async function openSettings(path: string): Promise<OpenedSettings> {
  const parsed = parseSettings(
    await readFile(path, 'utf8').catch(() => {
      throw new SandboxUnavailable(`${path} cannot be read. Check ASSAY_KUBERNETES.`)
    }),
  )
  const registry = parsed.registry && locateRegistryFiles(parsed.registry, dirname(path))
  const settings = { ...parsed, registry }
  if (settings.kubeconfig === undefined) return { settings, connection: await openInCluster() }
  const file = resolve(dirname(path), settings.kubeconfig)
  const text = await readFile(file, 'utf8').catch(() => {
    throw new SandboxUnavailable(`${file} cannot be read. Check kubeconfig in ${path}.`)
  })
  return { settings, connection: await parseKubeconfig(text, dirname(file)) }
}
