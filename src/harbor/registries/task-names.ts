import { byCodePoint } from '../path-rules.ts'
import { type ResolvedTask, taskName } from './registry.ts'

/** One order everywhere, whatever the registry's own is. */
export const inOrder = (a: ResolvedTask, b: ResolvedTask): number => byCodePoint(taskName(a), taskName(b))

/** A name that stands twice among sorted tasks. Two tasks of one name could not be told apart in results. */
export function doubled(tasks: readonly ResolvedTask[]): string | undefined {
  const names = tasks.map(taskName)
  return names.find((name, place) => place > 0 && name.toLowerCase() === names[place - 1]?.toLowerCase())
}
