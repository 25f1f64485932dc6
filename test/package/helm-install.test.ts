import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newKey } from '../../src/workspaces/key.ts'
import { type ChartCluster, openChartCluster } from '../support/chart-cluster.ts'
import { CHART, findHelm, helm } from '../support/helm-command.ts'
import { hasProgram, isLongRun } from '../support/parts.ts'
import { publishSample } from '../support/publish-sample.ts'
import { HELPER_IMAGE, testKubeconfig } from '../support/sandboxes/kubernetes-subject.ts'

/** Container image of Assay that the test cluster has or can pull. */
const image = process.env.ASSAY_TEST_IMAGE ?? ''
const canInstall = isLongRun() && testKubeconfig !== undefined && image !== '' && hasProgram('kubectl')
const program = canInstall ? await findHelm() : undefined

describe.runIf(canInstall && program)('the Helm chart in a cluster', () => {
  const folder = mkdtempSync(join(tmpdir(), 'assay-chart-'))
  const key = newKey()
  let cluster: ChartCluster
  let url: string

  const chart = (...args: string[]): Promise<string> =>
    helm(program ?? '', ['--namespace', cluster.namespace, ...args], { KUBECONFIG: testKubeconfig ?? '' })
  const install = (...args: string[]) =>
    chart(...args, 'lab', CHART, '--values', join(folder, 'values.json'), '--wait', '--timeout', '10m')
  const ofPods = (path: string) =>
    cluster.kubectl('get', 'pods', '-l', 'app.kubernetes.io/name=assay', '-o', `jsonpath={.items[*]${path}}`)

  beforeAll(async () => {
    cluster = await openChartCluster(testKubeconfig ?? '', image)
    await cluster.apply(
      secret('shared', { DATABASE_URL: cluster.databaseUrl, ASSAY_SECRET_KEY: randomBytes(32).toString('hex') }),
      secret('server', { ASSAY_BOOTSTRAP_KEY: key }),
    )
    writeFileSync(join(folder, 'values.json'), JSON.stringify(values(cluster)))
    await install('install')
    url = await cluster.forward('lab-api', 80)
  }, 1_200_000)

  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true, force: true })
  }, 600_000)

  test('starts every process, ready and not as root, after the migrations', async () => {
    const names = await ofPods('.metadata.labels.app\\.kubernetes\\.io/component')
    expect(names.split(' ').sort()).toEqual(['api', 'api', 'gateway', 'worker', 'worker'])
    expect(new Set((await ofPods('.status.containerStatuses[0].ready')).split(' '))).toEqual(new Set(['true']))
    expect((await fetch(`${url}/readyz`)).status).toBe(200)
    expect(await cluster.kubectl('exec', 'deployment/lab-api', '--', 'id', '-u')).toBe('10001')
  })

  test('leads from a connected repository to a public page, with sandboxes in the cluster', async () => {
    const page = await publishSample({ url, key, sandbox: 'kubernetes', task: 'inventory-on-a-prebuilt-image' })
    expect(page).toContain('Scripted')
  })

  test('admits workers to the gateway and nobody else', async () => {
    const probe = `fetch('http://${cluster.freeAddress}:4001/healthz', { signal: AbortSignal.timeout(5000) }).then(() => console.log('reached'), () => console.log('refused'))`
    const from = (pod: string) => cluster.kubectl('exec', pod, '--', 'node', '-e', probe)
    expect([await from('deployment/lab-worker'), await from('pod/provider')]).toEqual(['reached', 'refused'])
  })

  test('upgrades while it answers, and leaves nothing behind', async () => {
    await install('upgrade', '--set', 'settings.ASSAY_LOG=warn')
    expect((await chart('history', 'lab', '--output', 'json')).match(/"deployed"/g)).toHaveLength(1)
    await chart('uninstall', 'lab', '--wait', '--timeout', '5m')
    const kinds = 'all,networkpolicies,poddisruptionbudgets,roles,rolebindings'
    const listLeft = async () =>
      (await cluster.kubectl('get', kinds, '-o', 'name')).split('\n').filter((name) => name.includes('lab-'))
    // Helm does not wait for pods, which have a minute to end.
    await expect.poll(listLeft, { timeout: 120_000, interval: 1000 }).toEqual([])
  })
})

const secret = (name: string, stringData: Record<string, string>): object => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name },
  stringData,
})

/** Small enough for one node with two processors and without a name server. */
function values({ freeAddress, providerUrl, apiServer }: ChartCluster): object {
  const [repository = '', tag = ''] = image.split(/:(?=[^/:]+$)/)
  const requests = { cpu: '50m', memory: '128Mi', 'ephemeral-storage': '16Mi' }
  const limits = { cpu: '2', memory: '1Gi', 'ephemeral-storage': '2Gi' }
  const resources = { requests, limits }
  return {
    image: { repository, tag },
    baseUrl: 'http://127.0.0.1:4000',
    secrets: { shared: 'shared', server: 'server' },
    blobs: { claim: 'blobs' },
    settings: { ASSAY_GATEWAY_UPSTREAM_CUSTOM_SCRIPTED: providerUrl, ASSAY_REGISTRIES: 'samples' },
    api: { resources },
    gateway: { resources, replicas: 1, clusterIP: freeAddress },
    worker: { resources, slots: 2 },
    migrate: { resources },
    sandboxes: { settings: { helperImage: HELPER_IMAGE, cpuRequest: 0.05 } },
    hostAliases: [
      { ip: freeAddress, hostnames: ['lab-gateway'] },
      { ip: apiServer, hostnames: ['kubernetes.default.svc'] },
    ],
  }
}
