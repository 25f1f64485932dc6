import { z } from 'zod'
import tasks from './tasks.gen.json' with { type: 'json' }

const File = z.object({ path: z.string(), text: z.string() })

/**
 * A good task from a known pull request: everything that the author and verifier models see, and an instruction that a
 * careful author wrote.
 */
const KnownTask = z.object({
  name: z.string(),
  pullRequest: z.object({ title: z.string(), body: z.string() }),
  draft: z.object({
    title: z.string(),
    problem: z.string(),
    expected: z.string(),
    actual: z.string().nullable(),
    reproduction: z.string().nullable(),
    constraints: z.array(z.string()),
  }),
  pinned: z.array(
    z.object({ kind: z.enum(['name', 'literal', 'path']), text: z.string(), signature: z.string().nullable() }),
  ),
  failToPass: z.array(z.string()),
  /** The change, as a patch of git. */
  source: z.string(),
  tests: z.array(File),
  /** Base version of the files that the change touches. */
  base: z.array(File),
})
export type KnownTask = z.infer<typeof KnownTask>

export const knownTasks: readonly KnownTask[] = z.array(KnownTask).parse(tasks)
