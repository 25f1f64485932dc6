import type { KnownTask } from '../src/taskgen/canaries/canary.ts'
import { parsePatch } from '../src/taskgen/candidates/read-diffs.ts'
import { type KnownPull, openKnown } from '../test/batches/known-pull.ts'
import { repositories } from '../test/support/repositories/repositories.ts'
import { listPulls, type SampleRepository } from '../test/support/repositories/repository.ts'
import { drafts } from '../test/support/repositories/scripts.ts'

/** Returns the good tasks of the sample repositories in the form in which models receive them. */
export async function loadCanaryTasks(): Promise<KnownTask[]> {
  const tasks: KnownTask[] = []
  for (const repository of repositories) tasks.push(...(await loadGoodTasks(repository)))
  return tasks
}

async function loadGoodTasks(repository: SampleRepository): Promise<KnownTask[]> {
  await using known = await openKnown(repository)
  const tasks: KnownTask[] = []
  for (const { number, expected, truth, isHostile } of listPulls(repository)) {
    const draft = drafts[repository.name]?.[number]
    const isGood = (truth ?? expected) === 'ready' && !isHostile
    if (!isGood || !draft) continue
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
  const changedPaths = parsePatch(source).map(({ path }) => path)
  return {
    pullRequest: { title, body },
    exposed: [...facts.exposed],
    failToPass: facts.failToPass.filter((id) => isChanged(id, hidden.files, before)),
    source,
    tests: hidden.files.map(({ path, content }) => ({ path, text: content })),
    base: changedPaths.flatMap((path) => {
      const text = before.get(path)
      return text === undefined ? [] : [{ path, text }]
    }),
  }
}

/** Matches the empty line before a test in Python, Go, Rust or JavaScript. */
const TEST_BOUNDARY = /\n\n(?=def |@|func |#\[test\]|test\()/

/** Returns true if a test is new or changed. An unchanged test passed before the change and is not fail-to-pass. */
function isChanged(id: string, files: KnownPull['split']['hidden']['files'], before: KnownPull['before']): boolean {
  const [path = '', name = ''] = id.split('::')
  const blocks = files.find((file) => file.path === path)?.content.split(TEST_BOUNDARY) ?? []
  const block = blocks.find((each) => new RegExp(`(?<!\\w)${name}(?!\\w)`).test(each)) ?? ''
  return !(before.get(path) ?? '').includes(block.trim())
}
