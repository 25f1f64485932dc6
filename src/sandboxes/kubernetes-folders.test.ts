import { randomUUID } from 'node:crypto'
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import {
  BASE_IMAGE,
  createNamespace,
  testKubeconfig,
  testRegistry,
} from '../../test/support/sandboxes/kubernetes-subject.ts'
import { plainSpec } from '../../test/support/sandboxes/plain-spec.ts'
import { createLog } from '../platform/log.ts'
import { createKubernetesProvider } from './kubernetes.ts'

vi.setConfig({ testTimeout: 300_000 })

type PodWithImages = { spec: { initContainers: { name: string; image: string }[] } }

test.skipIf(testKubeconfig === undefined || testRegistry === undefined)(
  'a folder that never changes is copied from an image, executable and read-only for every user',
  async () => {
    await using place = await createNamespace(testKubeconfig ?? '')
    await using undo = new AsyncDisposableStack()
    const top = await mkdtemp(join(tmpdir(), 'assay-kubernetes-folders-'))
    undo.defer(() => rm(top, { recursive: true }))
    const program = join(top, 'program')
    await mkdir(program)
    await writeFile(join(program, 'agent'), `#!/bin/sh\necho agent ${randomUUID().slice(0, 8)} as $(id -un)\n`)
    await chmod(join(program, 'agent'), 0o755)
    const provider = createKubernetesProvider({
      open: place.open,
      installation: randomUUID().slice(0, 8),
      dataFolder: join(top, 'data'),
      log: createLog('silent'),
    })
    const image = await provider.prepare(
      { kind: 'prebuilt', name: BASE_IMAGE, folder: null, workdir: null },
      { signal: new AbortController().signal, timeoutSec: 60, onLog: () => {} },
    )

    const script = '/opt/agent/agent; touch /opt/agent/file 2> /dev/null || echo read-only'
    const mount = { kind: 'folder', source: program, target: '/opt/agent', readOnly: true, isImmutable: true } as const
    const namesOfImages: string[] = []
    for (const user of ['root', 'nobody']) {
      const outputFile = join(top, `output-${user}`)
      const spec = plainSpec(image, ['sh', '-c', script], outputFile)
      await using sandboxes = new AsyncDisposableStack()
      const sandbox = await provider.start({ ...spec, user, mounts: [mount] })
      sandboxes.defer(() => sandbox.remove())
      await sandbox.exited
      expect(await readFile(outputFile, 'utf8')).toMatch(new RegExp(`^agent \\w{8} as ${user}\\nread-only\\n$`))
      const pods = `/api/v1/namespaces/${place.namespace}/pods`
      const { items } = await place.kubernetes.call<{ items: PodWithImages[] }>('GET', pods)
      const containers = items.flatMap(({ spec: { initContainers } }) => initContainers)
      namesOfImages.push(...containers.filter(({ name }) => name === 'folder-0').map(({ image }) => image))
    }
    expect(namesOfImages).toHaveLength(2)
    expect(namesOfImages[0]).toMatch(/@sha256:[0-9a-f]{64}$/)
    expect(namesOfImages[1]).toBe(namesOfImages[0])
  },
)
