import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isLongRun } from '../../test/support/parts.ts'
import { createNamespace, type TestNamespace, testKubeconfig } from '../../test/support/sandboxes/kubernetes-subject.ts'
import { createLog } from '../platform/log.ts'
import { createKubernetesProvider } from './kubernetes.ts'

const PODS = isLongRun() ? 50 : 4
const PARALLEL = 4

describe.skipIf(testKubeconfig === undefined)('with the cluster of ASSAY_TEST_KUBECONFIG', () => {
  let place: TestNamespace
  let dataFolder: string

  beforeAll(async () => {
    place = await createNamespace(testKubeconfig ?? '')
    dataFolder = await mkdtemp(join(tmpdir(), 'assay-kubernetes-'))
  })

  afterAll(async () => {
    await place?.[Symbol.asyncDispose]()
    await rm(dataFolder, { recursive: true })
  })

  /** Starts a pod that connects to everything in its first moment, and returns why the provider refuses to work. */
  async function findLeak(): Promise<string | undefined> {
    const provider = createKubernetesProvider({
      open: place.open,
      installation: randomUUID().slice(0, 8),
      dataFolder,
      log: createLog('silent'),
    })
    return provider.selfTest().then(
      () => undefined,
      (error) => String(error),
    )
  }

  test(`0 of ${PODS} pods reach a pod, the API server, the kubelet or the internet in their first moment`, {
    timeout: 3_600_000,
  }, async () => {
    const leaks: (string | undefined)[] = []
    const turns = Array.from({ length: PODS }).values()
    const worker = async () => {
      for (const _ of turns) leaks.push(await findLeak())
    }
    await Promise.all(Array.from({ length: PARALLEL }, worker))
    expect(leaks).toHaveLength(PODS)
    expect(leaks.filter((leak) => leak !== undefined)).toEqual([])
  })
})
