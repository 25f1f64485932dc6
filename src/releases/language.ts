import { findSourceLanguage } from '../grading/languages/languages.ts'

/** Folder of the hidden tests in generated tasks. Other files of their verifier are the same in every language. */
const HIDDEN_TESTS = /^tests\/grader\/hidden\//
/** Folders of a task, the one that shows its language best first. Tests of hand-written tasks are often in Python. */
const FOLDERS = [HIDDEN_TESTS, /^(environment|solution|steps)\//, /^tests\//]
/** Scripts and queries that tasks in every language contain. */
const ACCOMPANYING = new Set(['shell', 'sql'])

/** Returns the language of most tasks, each given by the paths of its files. Null if no task shows one. */
export const detectLanguage = (tasks: readonly (readonly string[])[]): string | null =>
  findMostFrequent(tasks.flatMap((paths) => detectTaskLanguage(paths) ?? []))

function detectTaskLanguage(paths: readonly string[]): string | null {
  for (const folder of FOLDERS) {
    const names = paths.filter((path) => folder.test(path)).flatMap((path) => findSourceLanguage(path)?.name ?? [])
    const language = findMostFrequent(names.filter((name) => !ACCOMPANYING.has(name)))
    if (language !== null) return language
  }
  return null
}

/** Returns the most frequent name. Ties are resolved by name. */
function findMostFrequent(names: readonly string[]): string | null {
  const counts = Map.groupBy(names, (name) => name)
  const sorted = [...counts].toSorted(([a, as], [b, bs]) => bs.length - as.length || (a < b ? -1 : 1))
  return sorted[0]?.[0] ?? null
}
