import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { useTestNamespace } from '../../test/support/sandboxes/kubernetes-fixture.ts'
import { BASE_IMAGE, testKubeconfig } from '../../test/support/sandboxes/kubernetes-subject.ts'
import { plainSpec } from '../../test/support/sandboxes/plain-spec.ts'
import { LABEL } from './kernel/ownership.ts'
import type { OpenedSettings } from './kubernetes/connection.ts'
import type { SandboxNetwork, SandboxProvider, SandboxSpec } from './sandbox.ts'

const TEST_MS = 120_000
const POLICIES = 'networkpolicies'
const CLAIMS = 'persistentvolumeclaims'

describe.skipIf(testKubeconfig === undefined)('with the cluster of ASSAY_TEST_KUBECONFIG', () => {
  const cluster = useTestNamespace()

  /** Opens the settings with or without storage for volumes, whatever the test cluster has. */
  const withVolumes = (volumes: OpenedSettings['settings']['volumes']) => async (): Promise<OpenedSettings> => {
    const { connection, settings } = await cluster.open()
    return { connection, settings: { ...settings, volumes } }
  }

  const pathOf = (
    kind: typeof POLICIES | typeof CLAIMS | 'pods' | 'serviceaccounts' | 'roles' | 'rolebindings',
  ): string => {
    const groups: Record<string, string> = {
      [POLICIES]: '/apis/networking.k8s.io/v1',
      roles: '/apis/rbac.authorization.k8s.io/v1',
      rolebindings: '/apis/rbac.authorization.k8s.io/v1',
    }
    return `${groups[kind] ?? '/api/v1'}/namespaces/${cluster.namespace}/${kind}`
  }

  const listNames = async (kind: typeof POLICIES | typeof CLAIMS): Promise<string[]> => {
    type Named = { items: { metadata: { name: string } }[] }
    const { items } = await cluster.kubernetes.call<Named>('GET', pathOf(kind))
    return items.map(({ metadata }) => metadata.name)
  }

  async function memberSpec(
    provider: SandboxProvider,
    { network, names, script }: { network: SandboxNetwork; names: string[]; script: string },
  ): Promise<SandboxSpec> {
    const source = { kind: 'prebuilt' as const, name: BASE_IMAGE, folder: null, workdir: null }
    const prepare = { signal: new AbortController().signal, timeoutSec: 60, onLog: () => {} }
    const image = await provider.prepare(source, prepare)
    const spec = plainSpec(image, ['bash', '-c', script], join(cluster.dataFolder, `${randomUUID()}.out`))
    return { ...spec, network: { sandboxNetwork: network, names } }
  }

  test(
    'a member is found by a name that a pod cannot have; its host name is similar',
    async () => {
      const provider = cluster.createProvider()
      const network = await provider.openNetwork(randomUUID())
      const script = 'hostname; getent hosts My_db.v1 | grep -c My_db.v1'
      const spec = await memberSpec(provider, { network, names: ['My_db.v1'], script })
      const member = await provider.start(spec)
      expect(await member.exited).toMatchObject({ code: 0 })
      expect(await readFile(spec.outputFile, 'utf8')).toBe('my-db-v1\n1\n')
      await member.remove()
      await network.remove()
      expect((await listNames(POLICIES)).filter((name) => name.includes(cluster.installation))).toEqual([])
    },
    TEST_MS,
  )

  test(
    'without storage the provider declares that it has no volumes, and refuses them with what to set',
    async () => {
      const provider = cluster.createProvider(withVolumes(undefined))
      expect(await provider.selfTest()).toMatchObject({ networks: true, volumes: false })
      const network = await provider.openNetwork(randomUUID())
      const spec = await memberSpec(provider, { network, names: ['main'], script: 'true' })
      const mounts = [{ kind: 'volume' as const, name: 'data', target: '/data', readOnly: false }]
      await expect(provider.start({ ...spec, mounts })).rejects.toThrow(/require a storage class: set volumes/)
      await network.remove()
    },
    TEST_MS,
  )

  test(
    'a credential that may not remove policies is declared to have no networks',
    async () => {
      const metadata = { name: 'no-networks' }
      await cluster.kubernetes.call('POST', pathOf('serviceaccounts'), { body: { metadata } })
      const rules = [
        { apiGroups: [''], resources: ['pods'], verbs: ['create', 'get', 'list', 'delete'] },
        { apiGroups: [''], resources: ['pods/exec', 'pods/attach'], verbs: ['create', 'get'] },
        { apiGroups: ['networking.k8s.io'], resources: [POLICIES], verbs: ['create'] },
      ]
      await cluster.kubernetes.call('POST', pathOf('roles'), { body: { metadata, rules } })
      const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: metadata.name }
      const subjects = [{ kind: 'ServiceAccount', name: metadata.name, namespace: cluster.namespace }]
      await cluster.kubernetes.call('POST', pathOf('rolebindings'), { body: { metadata, roleRef, subjects } })
      const { status } = await cluster.kubernetes.call<{ status: { token: string } }>(
        'POST',
        `${pathOf('serviceaccounts')}/${metadata.name}/token`,
        { body: { spec: {} } },
      )
      const provider = cluster.createProvider(async () => {
        const { settings, connection } = await cluster.open()
        const { server, ca } = connection
        return { settings, connection: { server, ca, token: async () => status.token } }
      })
      expect(await provider.selfTest()).toMatchObject({ networks: false, volumes: false })
      expect(await provider.reap()).toBe(0)
    },
    TEST_MS,
  )

  test(
    'reap removes the networks and volumes of dead workers that no pod uses, and of this installation only',
    async () => {
      const metadata = (name: string, owner: string) => ({
        name,
        labels: { [LABEL.installation]: owner },
        annotations: { [LABEL.owner]: 'another/machine/1/1', [LABEL.deadline]: '0' },
      })
      const claim = {
        accessModes: ['ReadWriteOnce'],
        storageClassName: 'none',
        resources: { requests: { storage: '1Mi' } },
      }
      const { annotations, ...labelled } = metadata('user', cluster.installation)
      const user = {
        ...labelled,
        labels: { ...labelled.labels, [LABEL.network]: 'used' },
        annotations: { ...annotations, [LABEL.deadline]: String(Date.now() + TEST_MS) },
      }
      const spec = { containers: [{ name: 'main', image: BASE_IMAGE, command: ['sleep', '60'] }] }
      await cluster.kubernetes.call('POST', pathOf('pods'), { body: { metadata: user, spec } })
      for (const [name, owner] of [
        ['left', cluster.installation],
        ['used', cluster.installation],
        ['other', 'another'],
      ] as const) {
        const body = { metadata: metadata(name, owner) }
        await cluster.kubernetes.call('POST', pathOf(POLICIES), { body: { ...body, spec: { podSelector: {} } } })
        await cluster.kubernetes.call('POST', pathOf(CLAIMS), { body: { ...body, spec: claim } })
      }
      expect(await cluster.createProvider(withVolumes({ storageClass: 'none', size: '1Mi' })).reap()).toBe(1)
      const kept = ['other', 'used']
      expect((await listNames(POLICIES)).filter((name) => ['left', ...kept].includes(name))).toEqual(kept)
      expect(await listNames(CLAIMS)).toEqual(kept)
    },
    TEST_MS,
  )
})
