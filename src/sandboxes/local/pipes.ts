import { randomUUID } from 'node:crypto'
import { rmSync } from 'node:fs'
import { mkdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import type { NamespaceProcess } from '../kernel/namespace-process.ts'
import type { ImageStore } from './image-store.ts'
import { makeRecord } from './record.ts'
import { line } from './shell.ts'

/** Pool of named pipes, created in groups: Node cannot create one, and a process per pipe is slow. */
export type Pipes = { put(holder: NamespaceProcess, path: string): Promise<void> }

const BATCH = 32
const PREFIX = 'pipes-'

export const holdsPipes = ({ id }: { id: string }): boolean => id.startsWith(PREFIX)

export function pipesOf(store: ImageStore): Pipes {
  const ready: string[] = []
  let folder: Promise<string> | undefined
  let filling: Promise<void> | undefined

  const fill = async (holder: NamespaceProcess): Promise<void> => {
    folder ??= openFolder(store)
    const place = await folder
    const names = Array.from({ length: BATCH }, () => join(place, randomUUID()))
    await holder.runOrThrow('Making pipes', line('mkfifo', '-m', '666', ...names))
    ready.push(...names)
  }
  return {
    async put(holder, path) {
      let pipe = ready.pop()
      while (pipe === undefined) {
        filling ??= fill(holder).finally(() => {
          filling = undefined
        })
        await filling
        pipe = ready.pop()
      }
      await rename(pipe, path)
    },
  }
}

/** Creates the folder of the pipes with a record like a sandbox's, so that it is removed after a crash. Otherwise it is removed with this process. */
async function openFolder(store: ImageStore): Promise<string> {
  const id = `${PREFIX}${randomUUID()}`
  const records = join(store.folder, 'records')
  await makeRecord(records, { id, deadline: Number.MAX_SAFE_INTEGER, cgroups: [] })
  const folder = join(store.folder, 'run', id)
  await mkdir(folder, { mode: 0o700, recursive: true })
  process.once('exit', () => {
    rmSync(folder, { recursive: true, force: true })
    rmSync(join(records, `${id}.json`), { force: true })
  })
  return folder
}
