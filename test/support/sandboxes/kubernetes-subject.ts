import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createLog } from '../../../src/platform/log.ts'
import { connectKubernetes, type Kubernetes } from '../../../src/sandboxes/kubernetes/client.ts'
import { type OpenedSettings, parseKubeconfig, parseSettings } from '../../../src/sandboxes/kubernetes/connection.ts'
import { createKubernetesProvider } from '../../../src/sandboxes/kubernetes.ts'
import type { Image, ImageSource, SandboxProvider } from '../../../src/sandboxes/sandbox.ts'
import type { ProviderUnderTest } from './provider-under-test.ts'

/** Kubeconfig of a cluster in which tests may create and remove namespaces. Undefined: the tests are skipped. */
export const testKubeconfig = process.env.ASSAY_TEST_KUBECONFIG

/** Images that the test cluster pulls or already has. */
const BASE_IMAGE = 'debian:bookworm-slim'
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
  await kubernetes.call('POST', '/api/v1/namespaces', { body: { metadata: { name: namespace } } })
  await waitForServiceAccount(kubernetes, namespace)
  return {
    kubernetes,
    namespace,
    open: async (settings = '') => ({
      connection,
      // Tests start sandboxes beside each other on clusters with few processors.
      settings: parseSettings(`helperImage: ${HELPER_IMAGE}\nnamespace: ${namespace}\ncpuRequest: 0.05\n${settings}`),
    }),
    async [Symbol.asyncDispose]() {
      await kubernetes.call('DELETE', `/api/v1/namespaces/${namespace}`)
      kubernetes.close()
    },
  }
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

/** Lists pods that name a sandbox, and files in the data folder besides archives of images. */
async function findLeftovers(
  { kubernetes, namespace }: TestNamespace,
  dataFolder: string,
  id: string,
): Promise<string[]> {
  const { items } = await kubernetes.call<{ items: object[] }>('GET', `/api/v1/namespaces/${namespace}/pods`)
  const files = await readdir(join(dataFolder, 'sandboxes', 'kubernetes'))
  return [
    ...items.map((pod) => JSON.stringify(pod)).filter((text) => text.includes(id)),
    ...files.filter((file) => !file.endsWith('.tar')),
  ]
}
