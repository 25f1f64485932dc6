import { mkdir, mkdtemp, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { findProcess, isAlive } from '../sandboxes/local/process-life.ts'
import { removeTree } from '../sandboxes/local/remove-tree.ts'

const NAME = /^\.trial-(\d+)-(\d+)-/

/** A folder for what a trial mounts. Its name tells whose it is, so that it goes even when that process has died. */
export async function openScratch(parent: string): Promise<AsyncDisposable & { path: string }> {
  await mkdir(parent, { recursive: true })
  const mark = await findProcess(process.pid)
  const path = await mkdtemp(join(parent, `.trial-${process.pid}-${mark?.startTime ?? '0'}-`))
  return { path, [Symbol.asyncDispose]: () => removeTree(path) }
}

/** Removes those whose process is dead. Answers how many. */
export async function reapScratch(parent: string): Promise<number> {
  const names = await readdir(parent).catch(() => [])
  let reaped = 0
  for (const name of names) {
    const [, pid, startTime] = NAME.exec(name) ?? []
    if (pid === undefined || startTime === undefined) continue
    if (await isAlive({ pid: Number(pid), startTime })) continue
    await removeTree(join(parent, name))
    reaped += 1
  }
  return reaped
}
