// Run by ssh-mirrors.ts in its network namespace: opens a mirror of each source and prints the results.
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { MirrorSource } from '../../src/repos/mirror/source.ts'
import { openMirror } from '../../src/repos/mirror.ts'
import { PUBLIC } from './loopback-servers.ts'
import { type MirrorOutcome, SSH_PORT } from './ssh-mirrors.ts'

const sources: MirrorSource[] = JSON.parse(await readFile(join(process.argv[2] ?? '', 'sources.json'), 'utf8'))
const mirrors = await mkdtemp(join(tmpdir(), 'assay-ssh-mirrors-'))
await waitForServer()
const outcomes: MirrorOutcome[] = []
for (const [n, source] of sources.entries()) outcomes.push(await mirror(source, mirrors, `source-${n}`))
await rm(mirrors, { recursive: true })
process.stdout.write(JSON.stringify(outcomes))

async function waitForServer(): Promise<void> {
  for (;;) {
    const socket = createConnection({ host: PUBLIC, port: SSH_PORT })
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (isOpen) return
    await wait(50)
  }
}

async function mirror(source: MirrorSource, folder: string, id: string): Promise<MirrorOutcome> {
  const { signal } = new AbortController()
  const rules = { resolveName: async () => [PUBLIC], gitAllow: [] }
  try {
    await using opened = await openMirror({ folder, ...rules }, { id, ...source, signal })
    return { tip: opened.tip }
  } catch (error) {
    return { error: String(error) }
  }
}
