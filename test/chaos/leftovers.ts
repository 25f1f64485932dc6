import { readdirSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { listAlive } from './processes.ts'

/** Lists sandboxes with a record: they are running, or their process has died. */
export const sandboxesIn = (dataFolder: string): string[] =>
  list(join(dataFolder, 'sandboxes/local/records'))
    .filter((name) => name.endsWith('.json'))
    .map((name) => name.slice(0, -'.json'.length))

/** Lists leftovers of killed sandboxes, trials and processes. Ignores everything else on the machine. */
export async function findLeftovers(dataFolder: string, sandboxes: Set<string>, killed: string[]): Promise<string[]> {
  const groups = list('/sys/fs/cgroup').flatMap((tree) => list(join('/sys/fs/cgroup', tree)))
  const named = [...groups, ...(await listLoops())]
  return [
    ...foldersOf(dataFolder),
    ...named.filter((text) => text.includes(dataFolder) || [...sandboxes].some((id) => text.includes(id))),
    ...(await listAlive(killed)).map((mark) => `process ${mark}`),
    ...(await mountsOf(dataFolder)),
  ]
}

/** Temporary folders of sandboxes and trials. Image drafts are ignored, because nothing removes them yet. */
const PLACES = ['sandboxes/local/records', 'sandboxes/local/run', 'trials']

const foldersOf = (dataFolder: string): string[] =>
  PLACES.flatMap((place) => list(join(dataFolder, place)).map((name) => join(place, name)))

/** Lists disk images. */
async function listLoops(): Promise<string[]> {
  const files = list('/sys/block').map((disk) => `/sys/block/${disk}/loop/backing_file`)
  return Promise.all(files.map((file) => readFile(file, 'utf8').catch(() => ''))) // most disks are not loop devices, or unused
}

/** Lists mounts in all namespaces, because a leaked process would keep its own. */
async function mountsOf(dataFolder: string): Promise<string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const texts = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/mountinfo`, 'utf8').catch(() => '')))
  return [...new Set(texts.flatMap((text) => text.split('\n')))].filter((line) => line.includes(dataFolder))
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return [] // a file, or nothing
  }
}
