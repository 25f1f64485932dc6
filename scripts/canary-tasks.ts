import type { KnownTask } from '../src/taskgen/canaries/canary.ts'
import { parsePatch } from '../src/taskgen/candidates/read-diffs.ts'
import { type KnownPull, openKnown } from '../test/batches/known-pull.ts'
import { repositories } from '../test/support/repositories/repositories.ts'
import { listPulls, type SampleRepository } from '../test/support/repositories/repository.ts'
import { drafts } from '../test/support/repositories/scripts.ts'

/** Returns the good tasks of the known repositories as models see them. Other tests run them. */
export async function loadCanaryTasks(): Promise<KnownTask[]> {
  const found: KnownTask[] = []
  for (const repository of repositories) found.push(...(await loadGoodTasks(repository)))
  return found
}

async function loadGoodTasks(repository: SampleRepository): Promise<KnownTask[]> {
  await using known = await openKnown(repository)
  const tasks: KnownTask[] = []
  for (const { number, expected, truth, isHostile } of listPulls(repository)) {
    const draft = drafts[repository.name]?.[number]
    if ((truth ?? expected) !== 'ready' || isHostile || !draft) continue
    tasks.push({ name: `${repository.name}-${number}`, draft, ...toKnownTask(await known.pull(number)) })
  }
  return tasks
}

function toKnownTask({
  pullRequest: { title, body },
  split,
  before,
  facts,
}: KnownPull): Omit<KnownTask, 'name' | 'draft'> {
  const { source, hidden } = split
  const touched = parsePatch(source).map(({ path }) => path)
  return {
    pullRequest: { title, body },
    exposed: [...facts.exposed],
    failToPass: facts.failToPass.filter((id) => isChanged(id, hidden.files, before)),
    source,
    tests: hidden.files.map(({ path, content }) => ({ path, text: content })),
    base: touched.flatMap((path) => {
      const text = before.get(path)
      return text === undefined ? [] : [{ path, text }]
    }),
  }
}

/** Matches the start of a test, in any of their languages. */
const NEXT = /\n\n(?=def |@|func |#\[test\]|test\()/

/** Returns true if a test is new or changed. One that existed unchanged before cannot be fail-to-pass. */
function isChanged(id: string, files: KnownPull['split']['hidden']['files'], before: KnownPull['before']): boolean {
  const [path = '', name = ''] = id.split('::')
  const blocks = files.find((file) => file.path === path)?.content.split(NEXT) ?? []
  const block = blocks.find((each) => new RegExp(`(?<!\\w)${name}(?!\\w)`).test(each)) ?? ''
  return !(before.get(path) ?? '').includes(block.trim())
}
