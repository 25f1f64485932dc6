import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { parse } from 'yaml'
import { createLog } from '../../../src/platform/log.ts'
import { connectKubernetes, type Kubernetes } from '../../../src/sandboxes/kubernetes/client.ts'
import { type OpenedSettings, parseKubeconfig, parseSettings } from '../../../src/sandboxes/kubernetes/connection.ts'
import { locateRegistryFiles, RegistrySettings } from '../../../src/sandboxes/kubernetes/registry-settings.ts'
import { createKubernetesProvider } from '../../../src/sandboxes/kubernetes.ts'
import type { Image, ImageSource, SandboxProvider } from '../../../src/sandboxes/sandbox.ts'
import { baseRootfs } from '../base-image.ts'
import { provideImage } from './imported-image.ts'
import type { ProviderUnderTest } from './provider-under-test.ts'

/** Kubeconfig of a cluster in which tests may create and remove namespaces. Undefined: the tests are skipped. */
export const testKubeconfig = process.env.ASSAY_TEST_KUBECONFIG

/**
 * Path of the settings of a registry, the section `registry` of the Kubernetes settings, to which tests may push and from
 * which the test cluster pulls. Undefined: the tests that build images are skipped.
 */
export const testRegistry = process.env.ASSAY_TEST_REGISTRY

/**
 * Storage class of the test cluster for volumes that sandboxes share. Undefined: the tests that need such volumes are
 * skipped.
 */
export const testStorageClass = process.env.ASSAY_TEST_STORAGE_CLASS

/** Imports the base image for builds into a data folder, because the test machine may reach no public registry. */
export async function importBuildBase(dataFolder: string): Promise<void> {
  if (testRegistry === undefined) return
  await provideImage(dataFolder, await baseRootfs(), BASE_IMAGE, { builds: true })
}

/** Images that the test cluster pulls or already has. */
export const BASE_IMAGE = 'debian:bookworm-slim'
export const HELPER_IMAGE = 'node:24-bookworm-slim'

/** A namespace of its own in the test cluster. */
export type TestNamespace = AsyncDisposable & {
  kubernetes: Kubernetes
  namespace: string
  /** Opens the settings of a provider in this namespace. */
  open(settings?: string): Promise<OpenedSettings>
}

export async function createNamespace(kubeconfig: string): Promise<TestNamespace> {
  const connection = await parseKubeconfig(await readFile(kubeconfig, 'utf8'), dirname(kubeconfig))
  const kubernetes = connectKubernetes(connection)
  const namespace = `assay-test-${randomUUID().slice(0, 8)}`
  const registry = testRegistry === undefined ? '' : await formatRegistry(testRegistry)
  await kubernetes.call('POST', '/api/v1/namespaces', { body: { metadata: { name: namespace } } })
  await waitForServiceAccount(kubernetes, namespace)
  return {
    kubernetes,
    namespace,
    open: async (settings = '') => ({
      connection,
      // Tests start sandboxes beside each other on clusters with few processors.
      settings: parseSettings(
        `helperImage: ${HELPER_IMAGE}\nnamespace: ${namespace}\ncpuRequest: 0.05\n${registry}${VOLUMES}${settings}`,
      ),
    }),
    async [Symbol.asyncDispose]() {
      await kubernetes.call('DELETE', `/api/v1/namespaces/${namespace}`)
      kubernetes.close()
    },
  }
}

const VOLUMES = testStorageClass === undefined ? '' : `volumes: { storageClass: ${testStorageClass}, size: 100Mi }\n`

/** Formats a registry as a line of the settings. Its paths are relative to its file. */
async function formatRegistry(path: string): Promise<string> {
  const settings = RegistrySettings.parse(parse(await readFile(path, 'utf8')))
  return `registry: ${JSON.stringify(locateRegistryFiles(settings, dirname(path)))}\n`
}

/** Pods cannot be created before the default service account of a new namespace exists. */
async function waitForServiceAccount(kubernetes: Kubernetes, namespace: string): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/default`
  const exists = (): Promise<boolean> =>
    kubernetes.call('GET', path).then(
      () => true,
      () => false,
    )
  while (!(await exists())) await new Promise((resolve) => setTimeout(resolve, 50))
}

/** Opens a provider in a namespace of its own. */
export async function createKubernetesSubject(
  kubeconfig: string,
  unable: Record<string, string> = {},
): Promise<ProviderUnderTest> {
  const namespace = await createNamespace(kubeconfig)
  const dataFolder = await mkdtemp(join(tmpdir(), 'assay-k8s-'))
  const provider = createKubernetesProvider({
    open: namespace.open,
    installation: randomUUID().slice(0, 8),
    dataFolder,
    log: createLog('silent'),
  })
  await importBuildBase(dataFolder)
  await provider.selfTest()
  const image = await prepared(provider, { ...BASE, folder: null, workdir: null })
  return {
    provider,
    image,
    otherImage: await prepared(provider, await otherSource(dataFolder)),
    brokenImage: { ...image, digest: `sha256:${'0'.repeat(64)}` },
    leftovers: (id) => findLeftovers(namespace, dataFolder, id),
    unable,
    async [Symbol.asyncDispose]() {
      await namespace[Symbol.asyncDispose]()
      await rm(dataFolder, { recursive: true })
    },
  }
}

const BASE = { kind: 'prebuilt' as const, name: BASE_IMAGE }

const prepared = (provider: SandboxProvider, source: ImageSource): Promise<Image> =>
  provider.prepare(source, { signal: new AbortController().signal, timeoutSec: 60, onLog: () => {} })

async function otherSource(dataFolder: string): Promise<ImageSource> {
  const folder = join(dataFolder, 'other')
  await mkdir(folder)
  await writeFile(join(folder, 'of-the-image'), 'image')
  return { ...BASE, folder, workdir: '/mine' }
}

/** Lists pods, policies and claims that name a sandbox or a network, and files in the data folder besides archives of images. */
export async function findLeftovers(
  { kubernetes, namespace }: TestNamespace,
  dataFolder: string,
  id: string,
): Promise<string[]> {
  const lists = [
    `/api/v1/namespaces/${namespace}/pods`,
    `/api/v1/namespaces/${namespace}/persistentvolumeclaims`,
    `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`,
  ]
  const answers = await Promise.all(lists.map((path) => kubernetes.call<{ items: object[] }>('GET', path)))
  const items = answers.flatMap((answer) => answer.items)
  const files = await readdir(join(dataFolder, 'sandboxes', 'kubernetes'))
  return [
    ...items.map((item) => JSON.stringify(item)).filter((text) => text.includes(id)),
    ...files.filter((file) => !file.endsWith('.tar')),
  ]
}
