import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import about from '../../package.json' with { type: 'json' }
import { CHART, findHelm, helm } from '../support/helm-command.ts'

const program = await findHelm()

type Rendered = {
  kind: string
  metadata: { name: string; annotations?: Record<string, string> }
  spec: Workload
  data?: Record<string, string>
  rules?: Rule[]
}
type Rule = { resources: string[]; verbs: string[] }
type Workload = { template: { metadata: { annotations?: Record<string, string> }; spec: PodSpec }; ingress?: unknown[] }
type Probe = { httpGet: { path: string } }
type PodSpec = {
  automountServiceAccountToken: boolean
  enableServiceLinks: boolean
  securityContext: object
  containers: {
    name: string
    envFrom: object[]
    resources: object
    volumeMounts: object[]
    livenessProbe?: Probe
    readinessProbe?: Probe
  }[]
  volumes: object[]
}

const REQUIRED = ['--set', 'baseUrl=https://assay.example.org,secrets.shared=shared,secrets.server=server']
const S3 = ['--set', 'blobs.url=s3://bucket/assay']

const render = async (...args: string[]): Promise<Rendered[]> => {
  const command = ['template', 'lab', CHART, '--namespace', 'lab', '--kube-version', '1.34.0', ...REQUIRED]
  const out = await helm(program ?? '', [...command, ...args])
  return parseAllDocuments(out).map((document) => document.toJS())
}
const podsOf = (all: Rendered[]) =>
  all
    .filter(({ kind }) => ['Deployment', 'Job'].includes(kind))
    .map(({ spec }) => ({ ...spec.template.spec, annotations: spec.template.metadata.annotations ?? {} }))

test('the chart has the version of the package', () => {
  const { version, appVersion } = parse(readFileSync(join(CHART, 'Chart.yaml'), 'utf8'))
  expect([version, appVersion]).toEqual([about.version, about.version])
})

describe.runIf(program)('the Helm chart (with helm)', () => {
  test('passes lint', async () => {
    expect(await helm(program ?? '', ['lint', '--strict', CHART, ...REQUIRED, ...S3])).toContain('0 chart(s) failed')
  })

  test('runs every process without root, privileges, writable root file system or unlimited resources', async () => {
    const pods = podsOf(await render(...S3))
    expect(pods.flatMap(({ containers }) => containers.map(({ name }) => name)).sort()).toEqual(
      ['api', 'gateway', 'migrate', 'worker'].sort(),
    )
    for (const { containers, securityContext, enableServiceLinks } of pods) {
      expect(securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } })
      expect(enableServiceLinks).toBe(false)
      for (const container of containers) {
        expect(container).toMatchObject({
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          },
          resources: {
            limits: { cpu: expect.anything(), memory: expect.anything(), 'ephemeral-storage': expect.anything() },
          },
        })
      }
    }
  })

  test('asks every process that keeps running whether it is alive and ready', async () => {
    const deployed = (await render(...S3)).filter(({ kind }) => kind === 'Deployment')
    const probes = podsOf(deployed).flatMap(({ containers }) =>
      containers.map(({ name, livenessProbe, readinessProbe }) => [
        name,
        livenessProbe?.httpGet.path,
        readinessProbe?.httpGet.path,
      ]),
    )
    expect(probes.sort()).toEqual(['api', 'gateway', 'worker'].map((name) => [name, '/healthz', '/readyz']))
  })

  test('gives a service account token to workers with Kubernetes sandboxes and to nothing else', async () => {
    const holders = (all: Rendered[]) =>
      podsOf(all).flatMap(({ automountServiceAccountToken, containers }) =>
        automountServiceAccountToken ? containers.map(({ name }) => name) : [],
      )
    expect(holders(await render(...S3))).toEqual(['worker'])
    const without = await render(...S3, '--set', 'sandboxes.enabled=false')
    expect(holders(without)).toEqual([])
    expect(without.filter(({ kind }) => /Role|ServiceAccount/.test(kind))).toEqual([])
  })

  test('lets all workers of a release, and no others, remove the sandboxes that a dead one left', async () => {
    const installationOf = async (...args: string[]) => {
      const map = (await render(...S3, ...args)).find(({ kind }) => kind === 'ConfigMap')
      return parse(map?.data?.['kubernetes.yaml'] ?? '').installation
    }
    expect(await installationOf()).toMatch(/^[a-z0-9]{12}$/)
    expect(await installationOf('--namespace', 'other')).not.toBe(await installationOf())
  })

  const settingsOf = (all: Rendered[]) =>
    parse(all.find(({ kind }) => kind === 'ConfigMap')?.data?.['kubernetes.yaml'] ?? '')

  test('mounts the credential of the image registry for workers only, which build nothing', async () => {
    const registry = 'sandboxes.registrySecret=pull,sandboxes.settings.registry.repository=images.example.org/assay'
    const all = await render(...S3, '--set', registry)
    expect(settingsOf(all).registry).toEqual({
      repository: 'images.example.org/assay',
      authFile: '/etc/assay-registry/config.json',
      builds: false,
    })
    const volume = { name: 'registry', secret: expect.objectContaining({ secretName: 'pull' }) }
    const holders = podsOf(all).filter(({ volumes }) => JSON.stringify(volumes).includes('"registry"'))
    expect(holders).toHaveLength(1)
    expect(holders[0]?.volumes).toContainEqual(volume)
    expect(holders[0]?.containers[0]).toMatchObject({ name: 'worker' })
    expect(holders[0]?.containers[0]?.volumeMounts).toContainEqual(
      expect.objectContaining({ mountPath: '/etc/assay-registry', readOnly: true }),
    )
    const plain = await render(...S3)
    expect(settingsOf(plain)).not.toHaveProperty('registry')
    expect(JSON.stringify(podsOf(plain))).not.toContain('assay-registry')
  })

  test('permits volume claims only if sandboxes share volumes', async () => {
    const claims = (all: Rendered[]) =>
      all.flatMap(({ rules = [] }) => rules).filter(({ resources }) => resources.includes('persistentvolumeclaims'))
    expect(claims(await render(...S3))).toEqual([])
    const volumes = ['--set', 'sandboxes.settings.volumes.storageClass=standard']
    expect(claims(await render(...S3, ...volumes))).toMatchObject([{ verbs: ['create', 'get', 'list', 'delete'] }])
  })

  test('gives the keys of model providers to API and gateway only', async () => {
    const server = { secretRef: { name: 'server' } }
    const holders = podsOf(await render(...S3)).flatMap(({ containers }) =>
      containers
        .filter(({ envFrom }) => JSON.stringify(envFrom).includes(JSON.stringify(server)))
        .map(({ name }) => name),
    )
    expect(holders.sort()).toEqual(['api', 'gateway'])
  })

  test('migrates before an installation and before an upgrade', async () => {
    const job = (await render(...S3)).find(({ kind }) => kind === 'Job')
    expect(job?.metadata.annotations).toMatchObject({ 'helm.sh/hook': 'pre-install,pre-upgrade' })
  })

  test('admits connections to the gateway from workers only, and none to workers', async () => {
    const policies = (await render(...S3)).filter(({ kind }) => kind === 'NetworkPolicy')
    const ingress = Object.fromEntries(policies.map(({ metadata, spec }) => [metadata.name, spec.ingress]))
    const worker = {
      podSelector: { matchLabels: expect.objectContaining({ 'app.kubernetes.io/component': 'worker' }) },
    }
    expect(ingress).toMatchObject({ 'lab-worker': [], 'lab-gateway': [{ from: [worker] }], 'lab-api': [{}] })
  })

  test('has a disruption budget for every deployment, and metrics of API and gateway to scrape', async () => {
    const all = await render(...S3)
    const names = (kind: string) => all.filter((each) => each.kind === kind).map(({ metadata }) => metadata.name)
    expect(names('PodDisruptionBudget').sort()).toEqual(names('Deployment').sort())
    const scraped = podsOf(all).filter(({ annotations }) => annotations['prometheus.io/scrape'] === 'true')
    expect(scraped.flatMap(({ containers }) => containers.map(({ name }) => name)).sort()).toEqual(['api', 'gateway'])
  })

  test.each([
    ['a missing Secret', 'secrets.shared='],
    ['a missing address', 'baseUrl='],
    ['two places for blobs', 'blobs.claim=blobs'],
    ['no place for blobs', 'blobs.url='],
    ['a secret among the settings', 'settings.ASSAY_SECRET_KEY=0123'],
    ['an unknown value', 'replicas=3'],
    ['a path of a registry password', 'sandboxes.settings.registry.passwordFile=x'],
    ['builds by workers that are not root', 'sandboxes.settings.registry.builds=true'],
    ['a limit without memory', 'api.resources.limits.memory=null'],
    ['an ingress without a host', 'ingress.enabled=true'],
  ])('refuses %s', async (_, value) => {
    await expect(render(...S3, '--set', value)).rejects.toThrow(/don't meet the specifications of the schema/)
  })
})
