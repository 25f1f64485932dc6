import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { tarEnd, tarFile, tarHeader } from '../kernel/tar-writer.ts'
import type { Image } from '../sandbox.ts'
import { findIdentity } from './account.ts'
import type { DockerEngine } from './engine.ts'

const folder = (path: string) => tarHeader({ path, type: 'Directory', mode: 0o755, uid: 0, gid: 0, size: 0 })

/** An engine whose containers have these archives at their paths. */
function engineWith(archives: Record<string, Buffer[]>): DockerEngine {
  const docker = {
    call: async () => ({ Id: 'container' }),
    async open(_method: string, _path: string, { query }: { query: { path: string } }) {
      const answer = new IncomingMessage(new Socket())
      for (const part of [...(archives[query.path] ?? []), tarEnd()]) answer.push(part)
      answer.push(null)
      return answer
    },
  }
  const launcher = { volume: '', image: '', toCommand: () => [] }
  return { docker, launcher, accounts: new Map(), installation: 'test', owner: 'test' } as unknown as DockerEngine
}

const image = { digest: 'sha256:x' } as Image

test('finds a user in the account files of the image', async () => {
  const passwd = tarFile('passwd', Buffer.from('dev:x:1000:1000::/home/dev:/bin/sh\n'), 0o644)
  const identity = await findIdentity(engineWith({ '/etc/passwd': passwd }), image, 'dev')
  expect(identity).toMatchObject({ uid: 1000, home: '/home/dev' })
})

test('ignores a folder at the path of an account file', async () => {
  const inside = ['a', 'b'].flatMap((name) => tarFile(`passwd/${name}`, Buffer.from('1000:x:7:7::/inside:\n'), 0o644))
  const engine = engineWith({ '/etc/passwd': [folder('passwd'), ...inside] })
  expect(await findIdentity(engine, image, 1000)).toMatchObject({ uid: 1000, gid: 0, home: '/' })
})
