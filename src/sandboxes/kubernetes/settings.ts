import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { SandboxUnavailable } from '../sandbox.ts'
import { type KubernetesConnection, openInCluster, parseKubeconfig } from './connection.ts'

const Name = z.string().regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/)

/** Settings of the provider, written as YAML. */
const KubernetesSettings = z.strictObject({
  /** Path of a kubeconfig, relative to the file of the settings. Default: the service account of this pod. */
  kubeconfig: z.string().min(1).optional(),
  /** Default: the namespace of the kubeconfig's context or of the service account. */
  namespace: Name.optional(),
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
  const read = KubernetesSettings.safeParse(readYaml(text))
  if (read.success) return read.data
  const [issue] = read.error.issues
  throw new SandboxUnavailable(`Invalid Kubernetes settings: ${issue?.path.join('.')}: ${issue?.message}`)
}

function readYaml(text: string): unknown {
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
