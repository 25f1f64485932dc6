import { appendFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ConfigEnvironment } from '../../src/config.ts'
import { LABEL } from '../../src/sandboxes/kernel/ownership.ts'
import { baseImages, startDockerd } from '../support/dockerd.ts'
import { hasPart } from '../support/parts.ts'
import { createNamespace, HELPER_IMAGE, testKubeconfig } from '../support/sandboxes/kubernetes-subject.ts'
import { CHAOS, writeDataset } from './dataset.ts'

/** An engine of a test, whose sandboxes outlive their worker. */
type HandoverEngine = AsyncDisposable & {
  environment: ConfigEnvironment
  listSandboxes(): Promise<string[]>
  /** Removes the sandboxes that a process has started. */
  removeSandboxesOf(pid: number): Promise<void>
}

/** Returns true if the labels name this process as the owner. */
const isOwner = (labels: Record<string, string>, pid: number): boolean =>
  labels[LABEL.owner]?.split('/')[2] === String(pid)

type HandoverEngineType = {
  sandbox: 'docker' | 'kubernetes'
  isPossible: boolean
  /** Starts the engine, and writes a registry of this many tasks that can run in it. */
  open(folder: string, registry: string, tasks: number): Promise<HandoverEngine>
}

export const HANDOVER_ENGINES: HandoverEngineType[] = [
  { sandbox: 'docker', isPossible: hasPart('docker'), open: openDocker },
  { sandbox: 'kubernetes', isPossible: testKubeconfig !== undefined, open: openKubernetes },
]

async function openDocker(_folder: string, registry: string, tasks: number): Promise<HandoverEngine> {
  writeDataset(registry, tasks)
  const dockerd = await startDockerd({ images: await baseImages() })
  type Container = { Id: string; Labels: Record<string, string> }
  const list = () => dockerd.docker.call<Container[]>('GET', '/containers/json', { query: { all: true } })
  return {
    environment: { DOCKER_HOST: `unix://${dockerd.socket}`, ASSAY_SANDBOXES: 'docker' },
    listSandboxes: async () => (await list()).map(({ Id }) => Id),
    async removeSandboxesOf(pid) {
      // Without its relay, the agent would end by itself.
      for (const { Id, Labels } of await list())
        if (isOwner(Labels, pid) && Labels[LABEL.role] === 'sandbox')
          await dockerd.docker.call('DELETE', `/containers/${Id}`, { query: { force: true } })
    },
    [Symbol.asyncDispose]: () => dockerd[Symbol.asyncDispose](),
  }
}

async function openKubernetes(folder: string, registry: string, tasks: number): Promise<HandoverEngine> {
  writeDataset(registry, tasks)
  const dataset = join(registry, CHAOS.datasetOrg, CHAOS.dataset)
  // The cluster builds no Dockerfile. The last section of the file is that of the environment.
  for (const name of readdirSync(dataset))
    appendFileSync(join(dataset, name, 'task.toml'), 'docker_image = "debian:bookworm-slim"\nworkdir = "/app"\n')
  const place = await createNamespace(testKubeconfig ?? '')
  const { kubernetes, namespace } = place
  const settings = join(folder, 'kubernetes.yaml')
  const facts = { kubeconfig: testKubeconfig, namespace, helperImage: HELPER_IMAGE, cpuRequest: 0.05 }
  writeFileSync(settings, JSON.stringify(facts))
  const pods = `/api/v1/namespaces/${namespace}/pods`
  type Pod = { metadata: { name: string; annotations: Record<string, string> } }
  const list = async () => (await kubernetes.call<{ items: Pod[] }>('GET', pods)).items.map(({ metadata }) => metadata)
  return {
    environment: { ASSAY_KUBERNETES: settings, ASSAY_SANDBOXES: 'kubernetes' },
    listSandboxes: async () => (await list()).map(({ name }) => name),
    async removeSandboxesOf(pid) {
      for (const { name, annotations } of await list())
        if (isOwner(annotations, pid))
          await kubernetes.call('DELETE', `${pods}/${name}`, { body: { gracePeriodSeconds: 0 } })
    },
    [Symbol.asyncDispose]: () => place[Symbol.asyncDispose](),
  }
}
