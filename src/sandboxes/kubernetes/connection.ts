import { readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { SandboxUnavailable } from '../sandbox.ts'

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

const Named = <T extends z.ZodType>(field: string, value: T) =>
  z.array(z.object({ name: z.string(), [field]: value })).default([])

const Text = z.string().min(1).optional()
const Cluster = z.object({
  server: z.url(),
  'certificate-authority': Text,
  'certificate-authority-data': Text,
  'insecure-skip-tls-verify': z.boolean().optional(),
})
const User = z.object({
  'client-certificate': Text,
  'client-certificate-data': Text,
  'client-key': Text,
  'client-key-data': Text,
  token: Text,
  tokenFile: Text,
  exec: z.unknown().optional(),
  'auth-provider': z.unknown().optional(),
})
const Context = z.object({ cluster: z.string(), user: z.string(), namespace: Text })
const Kubeconfig = z.object({
  'current-context': Text,
  clusters: Named('cluster', Cluster),
  users: Named('user', User),
  contexts: Named('context', Context),
})

/** Parses a kubeconfig. Relative paths in it are relative to `folder`. */
export async function parseKubeconfig(text: string, folder: string): Promise<KubernetesConnection> {
  const config = readYaml(text)
  const context = find(config.contexts, 'context', Context, config['current-context'])
  const cluster = find(config.clusters, 'cluster', Cluster, context.cluster)
  const user = find(config.users, 'user', User, context.user)
  if (cluster['insecure-skip-tls-verify'])
    throw refused('it disables TLS verification. Set certificate-authority-data instead')
  if (user.exec !== undefined || user['auth-provider'] !== undefined)
    throw refused('its user runs a program to log in. Use the token of a service account instead')
  const read = (path: string | undefined): Promise<string> | undefined =>
    path === undefined ? undefined : readCredentialFile(resolve(folder, path))
  const { token, tokenFile } = user
  return {
    server: cluster.server,
    ca: decode(cluster['certificate-authority-data']) ?? (await read(cluster['certificate-authority'])),
    cert: decode(user['client-certificate-data']) ?? (await read(user['client-certificate'])),
    key: decode(user['client-key-data']) ?? (await read(user['client-key'])),
    token: token !== undefined ? async () => token : tokenFile !== undefined ? () => readToken(tokenFile) : undefined,
    namespace: context.namespace,
  }
}

function readYaml(text: string): z.infer<typeof Kubeconfig> {
  try {
    return Kubeconfig.parse(parse(text))
  } catch {
    // The parser's message could quote a secret.
    throw refused('it is not a kubeconfig in YAML')
  }
}

function find<T extends z.ZodType>(
  entries: Record<string, unknown>[],
  field: string,
  schema: T,
  name: string | undefined,
): z.infer<T> {
  const entry = entries.find((each) => each.name === name)
  if (entry === undefined) throw refused(`it has no ${field} named ${JSON.stringify(name ?? '')}`)
  return schema.parse(entry[field])
}

const refused = (reason: string): SandboxUnavailable =>
  new SandboxUnavailable(`The kubeconfig cannot be used: ${reason}.`)

const decode = (data: string | undefined): string | undefined =>
  data === undefined ? undefined : Buffer.from(data, 'base64').toString()

const readCredentialFile = (path: string): Promise<string> =>
  readFile(path, 'utf8').catch(() => {
    throw new SandboxUnavailable(`${path} cannot be read. Check the paths in the kubeconfig.`)
  })

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

const Name = z.string().regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/)

/** Settings of the provider, written as YAML. */
const KubernetesSettings = z.strictObject({
  /** Path of a kubeconfig, relative to the file of the settings. Default: the service account of this pod. */
  kubeconfig: z.string().min(1).optional(),
  /** Default: the namespace of the kubeconfig's context or of the service account. */
  namespace: Name.optional(),
  /** Shared by the workers of one deployment, so that each removes what a dead one left. Default: of the data folder. */
  installation: z
    .string()
    .regex(/^[a-z0-9]{1,40}$/)
    .optional(),
  /** Image with Node, glibc, dash, GNU tar, findutils, coreutils and util-linux, such as `node:24-bookworm-slim`. */
  helperImage: z.string().min(1),
  runtimeClass: Name.optional(),
  nodeSelector: z.record(z.string(), z.string()).default({}),
  tolerations: z.array(z.record(z.string(), z.union([z.string(), z.number()]))).default([]),
  pullSecrets: z.array(Name).default([]),
  /** Part of its processor limit that a sandbox reserves on its node. Below 1, sandboxes may share processors. */
  cpuRequest: z.number().positive().max(1).default(1),
  /** Networks that sandboxes reach although the policy denies it, by the names that the self-test prints. */
  acceptReachable: z.array(z.string()).default([]),
})

export type KubernetesSettings = z.infer<typeof KubernetesSettings>

export function parseSettings(text: string): KubernetesSettings {
  const read = KubernetesSettings.safeParse(readSettingsYaml(text))
  if (read.success) return read.data
  const [issue] = read.error.issues
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
  const settings = parseSettings(
    await readFile(path, 'utf8').catch(() => {
      throw new SandboxUnavailable(`${path} cannot be read. Check ASSAY_KUBERNETES.`)
    }),
  )
  if (settings.kubeconfig === undefined) return { settings, connection: await openInCluster() }
  const file = resolve(dirname(path), settings.kubeconfig)
  const text = await readFile(file, 'utf8').catch(() => {
    throw new SandboxUnavailable(`${file} cannot be read. Check kubeconfig in ${path}.`)
  })
  return { settings, connection: await parseKubeconfig(text, dirname(file)) }
}
