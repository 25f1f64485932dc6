import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { baseImages, startDockerd } from '../../test/support/dockerd.ts'
import { type AdoptionSubject, adoptionCases } from '../../test/support/sandboxes/adopt-cases.ts'
import { findLeftovers } from '../../test/support/sandboxes/docker-subject.ts'
import { createLog } from '../platform/log.ts'
import { createDockerProvider } from './docker.ts'

const CLIENT = fileURLToPath(new URL('../../test/support/sandboxes/adoptable-docker-client.ts', import.meta.url))
const INSTALLATION = 'adopting'

adoptionCases(async (): Promise<AdoptionSubject> => {
  const dataFolder = await mkdtemp(join(tmpdir(), 'assay-adopt-'))
  const dockerd = await startDockerd({ images: await baseImages() })
  const connection = { kind: 'unix' as const, path: dockerd.socket }
  return {
    dataFolder,
    newProvider: () =>
      createDockerProvider({ connection, installation: INSTALLATION, dataFolder, log: createLog('silent') }),
    client: [CLIENT, dataFolder, dockerd.socket, INSTALLATION],
    waitForEnd: (id) => dockerd.docker.call('POST', `/containers/assay-${INSTALLATION}-${id}/wait`),
    removeBehind: (id) => dockerd.docker.call('DELETE', `/containers/assay-${INSTALLATION}-${id}`),
    leftovers: (id) => findLeftovers(dockerd.docker, dataFolder, id),
    async [Symbol.asyncDispose]() {
      await dockerd[Symbol.asyncDispose]()
      await rm(dataFolder, { recursive: true })
    },
  }
})
