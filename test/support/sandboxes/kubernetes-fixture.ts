import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll } from 'vitest'
import { createLog } from '../../../src/platform/log.ts'
import type { OpenedSettings } from '../../../src/sandboxes/kubernetes/connection.ts'
import { createKubernetesProvider } from '../../../src/sandboxes/kubernetes.ts'
import type { SandboxProvider } from '../../../src/sandboxes/sandbox.ts'
import { createNamespace, type TestNamespace, testKubeconfig } from './kubernetes-subject.ts'

/** A namespace of the test cluster and a data folder, which exist while the tests of a suite run. */
type NamespaceFixture = Pick<TestNamespace, 'kubernetes' | 'namespace' | 'open'> & {
  dataFolder: string
  installation: string
  /** Creates a provider in the namespace. Default: with the settings of `open`. */
  createProvider(open?: () => Promise<OpenedSettings>): SandboxProvider
}

const CREATE_TIMEOUT_MS = 120_000

/** Creates a namespace before the tests of the calling suite, and removes it after them. */
export function useTestNamespace(): NamespaceFixture {
  const installation = randomUUID().slice(0, 8)
  let created: { namespace: TestNamespace; dataFolder: string } | undefined
  beforeAll(async () => {
    const namespace = await createNamespace(testKubeconfig ?? '')
    const dataFolder = await mkdtemp(join(tmpdir(), 'assay-kubernetes-'))
    created = { namespace, dataFolder }
    return async () => {
      await namespace[Symbol.asyncDispose]()
      await rm(dataFolder, { recursive: true })
    }
  }, CREATE_TIMEOUT_MS)
  const read = () => {
    if (created === undefined) throw new Error('The namespace exists only while the tests run.')
    return created
  }
  const openSettings: TestNamespace['open'] = (settings) => read().namespace.open(settings)
  return {
    installation,
    get kubernetes() {
      return read().namespace.kubernetes
    },
    get namespace() {
      return read().namespace.namespace
    },
    get dataFolder() {
      return read().dataFolder
    },
    open: openSettings,
    createProvider: (open = openSettings) =>
      createKubernetesProvider({ open, installation, dataFolder: read().dataFolder, log: createLog('silent') }),
  }
}
