import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { type AdoptionSubject, adoptionCases } from '../../test/support/sandboxes/adopt-cases.ts'
import { baseImage } from '../../test/support/sandboxes/docker-subject.ts'
import {
  createNamespace,
  findLeftovers,
  HELPER_IMAGE,
  testKubeconfig,
} from '../../test/support/sandboxes/kubernetes-subject.ts'
import { plainSpec } from '../../test/support/sandboxes/plain-spec.ts'
import { createLog } from '../platform/log.ts'
import { LABEL } from './kernel/ownership.ts'
import { openSettings } from './kubernetes/connection.ts'
import { runExec } from './kubernetes/exec-stream.ts'
import { PIPES_FOLDER } from './kubernetes/recorder.ts'
import { createKubernetesProvider } from './kubernetes.ts'
import type { Exit, SandboxSpec } from './sandbox.ts'

const CLIENT = fileURLToPath(new URL('../../test/support/sandboxes/adoptable-kubernetes-client.ts', import.meta.url))

describe.skipIf(testKubeconfig === undefined)('with the cluster of ASSAY_TEST_KUBECONFIG', () => {
  const subject = adoptionCases(openSubject)

  /** Runs a script in an adoptable sandbox, and returns its exit and its output. */
  async function run(script: string, changes: Partial<SandboxSpec> = {}): Promise<{ exit: Exit; output: string }> {
    const { newProvider, dataFolder } = subject()
    const provider = newProvider()
    const outputFile = join(dataFolder, `${randomUUID()}.log`)
    const spec = plainSpec(await baseImage(provider), ['sh', '-c', script], outputFile)
    const sandbox = await provider.start({ ...spec, isAdoptable: true, ...changes })
    const exit = await sandbox.exited
    await sandbox.remove()
    return { exit, output: await readFile(outputFile, 'utf8') }
  }

  test('a command cannot forge its exit code, nor write where its recorder reads', async () => {
    const forge = 'for fd in /proc/[0-9]*/fd/3; do echo 0 > "$fd"; done 2> /dev/null'
    const { exit, output } = await run(
      `ls -A ${PIPES_FOLDER}; touch ${PIPES_FOLDER}/code 2> /dev/null || echo refused; ${forge}; exit 3`,
    )
    expect(output).toBe('refused\n')
    expect(exit).toMatchObject({ code: 3, limit: null })
  })

  test('a command that kills everything has been killed', async () => {
    expect((await run('kill -9 -1; kill -9 $$')).exit).toMatchObject({ code: 137, limit: null })
  })

  test('output above the limit is counted and not kept', async () => {
    const { exit, output } = await run('head -c 300000 /dev/zero')
    expect(exit).toMatchObject({ code: 0, limit: 'output', outputBytes: 300_000 })
    expect(output).toHaveLength(1000)
  })

  test('a user other than root has its input, and may open its output by name', async () => {
    const input = Buffer.alloc(1_000_000, 'x')
    const { output } = await run('wc -c; echo named > /dev/stdout', { user: 'nobody', input })
    expect(output).toBe('1000000\nnamed\n')
  })

  test('the end of a command ends its background processes, which may hold its output', async () => {
    const { exit, output } = await run('echo first; sleep 100 & exit 5')
    expect(exit).toMatchObject({ code: 5, limit: null })
    expect(output).toBe('first\n')
  })
})

async function openSubject(): Promise<AdoptionSubject> {
  const place = await createNamespace(testKubeconfig ?? '')
  const { kubernetes, namespace } = place
  const dataFolder = await mkdtemp(join(tmpdir(), 'assay-adopt-'))
  const settings = join(dataFolder, 'kubernetes.yaml')
  const facts = { kubeconfig: testKubeconfig, namespace, helperImage: HELPER_IMAGE, cpuRequest: 0.05 }
  await writeFile(settings, JSON.stringify(facts))
  const newProvider = () =>
    createKubernetesProvider({
      open: () => openSettings(settings),
      installation: 'adopting',
      dataFolder,
      log: createLog('silent'),
    })
  await newProvider().selfTest()
  const pods = `/api/v1/namespaces/${namespace}/pods`
  const findPodName = async (id: string): Promise<string> => {
    type Pods = { items: { metadata: { name: string; annotations: Record<string, string> } }[] }
    const { items } = await kubernetes.call<Pods>('GET', pods)
    return items.find(({ metadata }) => metadata.annotations[LABEL.sandbox] === id)?.metadata.name ?? ''
  }
  return {
    dataFolder,
    newProvider,
    client: [CLIENT, dataFolder, settings],
    async waitForEnd(id) {
      const command = ['sh', '-c', 'until [ -e /result ]; do sleep 0.05; done']
      const target = { namespace, pod: await findPodName(id), container: 'main' }
      await runExec(kubernetes, target, command, { timeoutMs: 30_000 })
    },
    removeBehind: async (id) =>
      kubernetes.call('DELETE', `${pods}/${await findPodName(id)}`, { body: { gracePeriodSeconds: 0 } }),
    leftovers: (id) => findLeftovers(place, dataFolder, id),
    async [Symbol.asyncDispose]() {
      await place[Symbol.asyncDispose]()
      await rm(dataFolder, { recursive: true })
    },
  }
}
