import { randomUUID } from 'node:crypto'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { useTestNamespace } from '../../test/support/sandboxes/kubernetes-fixture.ts'
import {
  BASE_IMAGE,
  HELPER_IMAGE,
  importBuildBase,
  testKubeconfig,
  testRegistry,
} from '../../test/support/sandboxes/kubernetes-subject.ts'
import { plainSpec } from '../../test/support/sandboxes/plain-spec.ts'
import { DEFAULT_LIMITS } from '../harbor/limits.ts'
import { LABEL } from './kernel/ownership.ts'
import { type Kubernetes, QuotaExceeded } from './kubernetes/client.ts'
import type { OpenedSettings } from './kubernetes/connection.ts'
import { type Image, type SandboxSpec, SandboxUnavailable } from './sandbox.ts'

const TEST_MS = 120_000
/** The kubelet measures disk use about every minute. */
const EVICTION_MS = 300_000
const PREPARE = { signal: new AbortController().signal, timeoutSec: 60, onLog: () => {} }
const LIMITS = { ...DEFAULT_LIMITS, outputBytes: 1000, seconds: 60 }
const prebuilt = (name: string) => ({ kind: 'prebuilt' as const, name, folder: null, workdir: null })

describe.skipIf(testKubeconfig === undefined)('with the cluster of ASSAY_TEST_KUBECONFIG', () => {
  const cluster = useTestNamespace()

  const withToken = (token: string) => async (): Promise<OpenedSettings> => {
    const { settings, connection } = await cluster.open()
    const { server, ca } = connection
    return { settings, connection: { server, ca, token: async () => token } }
  }

  const specOf = (image: Image, ...command: string[]): SandboxSpec =>
    plainSpec(image, command, join(cluster.dataFolder, `${randomUUID()}.out`))

  const inNamespace = (path: string, api = '/api/v1'): string => `${api}/namespaces/${cluster.namespace}/${path}`

  const listPods = async (): Promise<string[]> => {
    const { items } = await cluster.kubernetes.call<{ items: { metadata: { name: string } }[] }>(
      'GET',
      inNamespace('pods'),
    )
    return items.map(({ metadata }) => metadata.name)
  }

  test('an invalid or expired token is refused with what to do', async () => {
    const provider = cluster.createProvider(withToken('expired'))
    await expect(provider.reap()).rejects.toThrow(SandboxUnavailable)
    await expect(provider.reap()).rejects.toThrow(/does not accept the credential.*renew it/)
  })

  test('a missing permission names the verb and the resource', async () => {
    await cluster.kubernetes.call('POST', inNamespace('serviceaccounts'), { body: { metadata: { name: 'weak' } } })
    const { status } = await cluster.kubernetes.call<{ status: { token: string } }>(
      'POST',
      inNamespace('serviceaccounts/weak/token'),
      { body: { spec: {} } },
    )
    const provider = cluster.createProvider(withToken(status.token))
    await expect(provider.selfTest()).rejects.toThrow(/may not create networkpolicies\. Grant this permission/)
    await expect(provider.reap()).rejects.toThrow(/may not list pods\. Grant this permission/)
  })

  test(
    'an image that cannot be pulled is an outage, and its pod is removed',
    async () => {
      const provider = cluster.createProvider()
      const found = provider.prepare(prebuilt('assay.invalid/missing:1'), PREPARE)
      await expect(found).rejects.toThrow(SandboxUnavailable)
      await expect(found).rejects.toThrow(
        /could not start a sandbox: (ErrImagePull|ImagePullBackOff).*Check that the nodes reach the registry/s,
      )
      expect(await listPods()).toEqual([])
    },
    TEST_MS,
  )

  test.skipIf(testRegistry === undefined)(
    'an image that was built but cannot be pulled by the nodes is an outage that names the settings',
    async () => {
      await importBuildBase(cluster.dataFolder)
      const provider = cluster.createProvider(async () => {
        const { connection, settings } = await cluster.open()
        const registry = settings.registry && { ...settings.registry, nodeRepository: '127.0.0.1:1/assay' }
        return { connection, settings: { ...settings, registry } }
      })
      const context = await mkdtemp(join(cluster.dataFolder, 'task-'))
      await writeFile(join(context, 'Dockerfile'), `FROM ${BASE_IMAGE}\nENV BUILT=1\n`)
      const source = { kind: 'dockerfile' as const, context, dockerfile: 'Dockerfile', target: null, args: {} }
      const started = provider.start(specOf(await provider.prepare(source, PREPARE), 'true'))
      await expect(started).rejects.toThrow(SandboxUnavailable)
      await expect(started).rejects.toThrow(/Check that the nodes reach the registry: .*registry\.nodeRepository/)
      expect(await listPods()).toEqual([])
    },
    TEST_MS,
  )

  test(
    'an exceeded quota is reported in the words of the cluster, by the next self-test too',
    async () => {
      const quota = { metadata: { name: 'small' }, spec: { hard: { 'requests.memory': '1Mi' } } }
      await cluster.kubernetes.call('POST', inNamespace('resourcequotas'), { body: quota })
      try {
        const provider = cluster.createProvider()
        const found = provider.prepare(prebuilt(HELPER_IMAGE), PREPARE)
        await expect(found).rejects.toThrow(QuotaExceeded)
        await expect(found).rejects.toThrow(/exceeded quota: small.*requests\.memory/)
        await expect(provider.selfTest()).rejects.toThrow(/exceeded quota: small/)
      } finally {
        await cluster.kubernetes.call('DELETE', inNamespace('resourcequotas/small'))
      }
    },
    TEST_MS,
  )

  test(
    'a network policy that does not hold is refused until the operator accepts it by name',
    async () => {
      await cluster.createProvider().selfTest()
      // Policies add up, so this one opens what ours denies.
      const spec = { podSelector: {}, policyTypes: ['Ingress', 'Egress'], ingress: [{}], egress: [{}] }
      const policies = inNamespace('networkpolicies', '/apis/networking.k8s.io/v1')
      await cluster.kubernetes.call('POST', policies, { body: { metadata: { name: 'open' }, spec } })
      try {
        const refused = cluster.createProvider().selfTest()
        await expect(refused).rejects.toThrow(SandboxUnavailable)
        await expect(refused).rejects.toThrow(/reach .*pod.*acceptReachable: \[/)
        const accepted = 'acceptReachable: [api-server, dns, internet, kubelet, metadata, pod]'
        expect(await cluster.createProvider(() => cluster.open(accepted)).selfTest()).toMatchObject({
          gatewayChannel: 'relay',
        })
      } finally {
        await cluster.kubernetes.call('DELETE', `${policies}/open`)
      }
    },
    TEST_MS,
  )

  test(
    'a sandbox that fills its disk is evicted, which is its limit and not an outage',
    async () => {
      const provider = cluster.createProvider()
      const image = await provider.prepare(prebuilt(HELPER_IMAGE), PREPARE)
      const sandbox = await provider.start({
        ...specOf(image, 'sh', '-c', 'dd if=/dev/zero of=/big bs=1M count=256; sleep 240'),
        limits: { ...LIMITS, diskMb: 64, seconds: 240 },
      })
      expect(await sandbox.exited).toMatchObject({ code: null, limit: 'disk' })
      expect(await sandbox.stopped.collect('/big', { files: 1, bytes: 1e9 })).toBeUndefined()
      await sandbox.remove()
      expect(await listPods()).toEqual([])
    },
    EVICTION_MS,
  )

  test(
    'a sandbox that has ended leaves its memory and processors to others, and its files can still be read',
    async () => {
      const provider = cluster.createProvider(async () => {
        const { connection, settings } = await cluster.open()
        return { connection, settings: { ...settings, cpuRequest: 1 } }
      })
      const image = await provider.prepare(prebuilt(HELPER_IMAGE), PREPARE)
      const { cpus, memoryMb } = await readLargestNode(cluster.kubernetes)
      // More than half of a node, so that no two of them fit.
      const limits = { ...LIMITS, cpus: 0.6 * cpus, memoryMb: Math.floor(0.6 * memoryMb) }
      const first = await provider.start({ ...specOf(image, 'sh', '-c', 'echo kept > /file'), limits })
      expect(await first.exited).toMatchObject({ code: 0 })
      const second = await provider.start({ ...specOf(image, 'true'), limits })
      expect(await second.exited).toMatchObject({ code: 0 })
      const found = await first.stopped.collect('/file', { files: 1, bytes: 1e6 })
      expect(found && (await text(found.tar))).toContain('kept')
      await Promise.all([first.remove(), second.remove()])
    },
    TEST_MS,
  )

  test(
    'reap removes the pods of dead workers, and of this installation only, which the settings may name',
    async () => {
      const pod = (name: string, owner: string) => ({
        metadata: {
          name,
          labels: { [LABEL.installation]: owner },
          annotations: { [LABEL.owner]: 'another/machine/1/1', [LABEL.deadline]: '0' },
        },
        spec: { containers: [{ name: 'main', image: HELPER_IMAGE, command: ['sleep', '60'] }] },
      })
      await cluster.kubernetes.call('POST', inNamespace('pods'), { body: pod('left', cluster.installation) })
      await cluster.kubernetes.call('POST', inNamespace('pods'), { body: pod('other', 'another') })
      expect(await cluster.createProvider().reap()).toBe(1)
      expect(await listPods()).toEqual(['other'])
      expect(await cluster.createProvider(() => cluster.open('installation: another')).reap()).toBe(1)
      expect(await listPods()).toEqual([])
    },
    TEST_MS,
  )
})

/** Returns the processors and the memory that pods can use on the node with the most memory. */
async function readLargestNode(kubernetes: Kubernetes): Promise<{ cpus: number; memoryMb: number }> {
  type Nodes = { items: { status: { allocatable: { cpu: string; memory: string } } }[] }
  const { items } = await kubernetes.call<Nodes>('GET', '/api/v1/nodes')
  const sizes = items.map(({ status: { allocatable } }) => ({
    cpus: Number.parseFloat(allocatable.cpu),
    memoryMb: Number.parseInt(allocatable.memory, 10) / 1024,
  }))
  return sizes.reduce((largest, size) => (size.memoryMb > largest.memoryMb ? size : largest))
}
