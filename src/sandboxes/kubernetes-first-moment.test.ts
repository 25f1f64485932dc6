import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { isLongRun } from '../../test/support/parts.ts'
import { useTestNamespace } from '../../test/support/sandboxes/kubernetes-fixture.ts'
import { testKubeconfig } from '../../test/support/sandboxes/kubernetes-subject.ts'
import { createLog } from '../platform/log.ts'
import { createKubernetesProvider } from './kubernetes.ts'

const PODS = isLongRun() ? 50 : 4
const PARALLEL = 4

describe.skipIf(testKubeconfig === undefined)('with the cluster of ASSAY_TEST_KUBECONFIG', () => {
  const cluster = useTestNamespace()

  /** Starts a pod that connects to everything in its first moment, and returns why the provider refuses to work. */
  async function findLeak(): Promise<string | undefined> {
    const provider = createKubernetesProvider({
      open: cluster.open,
      installation: randomUUID().slice(0, 8),
      dataFolder: cluster.dataFolder,
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
