import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, test, vi } from 'vitest'
import { hasPart, isLongRun, postgresFolder } from '../support/parts.ts'
import { createNamespace, HELPER_IMAGE, testKubeconfig } from '../support/sandboxes/kubernetes-subject.ts'
import { seeded } from '../support/seeded.ts'
import { type KillTarget, startParts } from './fleet.ts'
import { countTrials, expectSurvival, SEED } from './survival.ts'

const TEST_MS = 3_600_000
/** Shell commands that kill a process of the test cluster's node. A supervisor must restart it. */
const { ASSAY_TEST_KILL_KUBELET, ASSAY_TEST_KILL_API_SERVER } = process.env

const plan = isLongRun() ? { tasks: 10, attempts: 5 } : { tasks: 2, attempts: 2 }
const KILLS = isLongRun() ? { worker: 20, kubelet: 5, apiServer: 1 } : { worker: 2, kubelet: 1, apiServer: 1 }

describe.runIf(testKubeconfig !== undefined && hasPart('postgres'))('sandboxes in Kubernetes', () => {
  test(`${countTrials(plan)} trials are scored once each and no pod is left despite kill -9 of workers, kubelet and API server`, {
    timeout: TEST_MS,
  }, async (context) => {
    const folder = mkdtempSync(join(tmpdir(), 'assay-cluster-kills-'))
    context.onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    await using place = await createNamespace(testKubeconfig ?? '')
    const settings = join(folder, 'kubernetes.yaml')
    writeFileSync(
      settings,
      JSON.stringify({
        kubeconfig: testKubeconfig,
        namespace: place.namespace,
        helperImage: HELPER_IMAGE,
        cpuRequest: 0.05,
      }),
    )
    await using fleet = await startParts(postgresFolder() ?? '', plan.tasks, {
      name: 'kubernetes',
      sample: 'inventory-on-a-prebuilt-image',
      environment: { ASSAY_SANDBOXES: 'kubernetes', ASSAY_KUBERNETES: settings },
    })
    await expectSurvival(context, fleet, plan, shuffle(listVictims(fleet.victims)))
    const listPods = async (): Promise<string[]> => {
      const path = `/api/v1/namespaces/${place.namespace}/pods`
      const { items } = await place.kubernetes.call<{ items: { metadata: { name: string } }[] }>('GET', path)
      return items.map(({ metadata }) => metadata.name)
    }
    await vi.waitFor(async () => context.expect(await listPods()).toEqual([]), { timeout: 60_000 })
  })
})

function listVictims(victims: readonly KillTarget[]): KillTarget[] {
  const workers = victims.filter(({ kind }) => kind === 'worker')
  const take = (count: number, targets: readonly KillTarget[]): KillTarget[] =>
    Array.from({ length: count }).flatMap((_, index) => targets[index % targets.length] ?? [])
  return [
    ...take(KILLS.worker, workers),
    ...take(KILLS.kubelet, nodeProcess('kubelet', ASSAY_TEST_KILL_KUBELET)),
    ...take(KILLS.apiServer, nodeProcess('API server', ASSAY_TEST_KILL_API_SERVER)),
  ]
}

const nodeProcess = (kind: string, command: string | undefined): KillTarget[] =>
  command === undefined
    ? []
    : [
        {
          kind,
          async kill() {
            await promisify(execFile)('sh', ['-c', command])
          },
        },
      ]

function shuffle(victims: readonly KillTarget[]): KillTarget[] {
  const random = seeded(SEED)
  return victims
    .map((victim) => ({ victim, order: random() }))
    .sort((a, b) => a.order - b.order)
    .map(({ victim }) => victim)
}
