import { z } from 'zod'
import type { Conversation, Tokens } from './conversation.ts'
import { BYTES_PER_TOKEN } from './tokens.ts'

const Count = z.int().min(0)

const Usage = z
  .object({
    ...{ input: Count, cacheRead: Count, cacheWrite5m: Count, cacheWrite1h: Count },
    ...{ output: Count, reasoning: Count },
  })
  .partial()

/** What goes wrong with a call. */
const Trouble = z.strictObject({
  /** An error instead of an answer. */
  status: z.int().min(400).max(599).optional(),
  message: z.string().optional(),
  retryAfter: z.string().optional(),
  /** No answer at all, or none after its first events. */
  hang: z.enum(['before', 'within']).optional(),
  /** Nothing more comes after so many events. */
  hangAfter: z.int().min(0).optional(),
  /** The connection breaks after so many events. */
  cutAfter: z.int().min(0).optional(),
  /** Events that are none, `within` the others or instead of all that come after. */
  malformed: z.enum(['within', 'after']).optional(),
  /** Between two events. */
  pauseMs: z.int().min(0).optional(),
  refuse: z.boolean().optional(),
})
export type Trouble = z.infer<typeof Trouble>

/** Something goes wrong with the next `times` calls. */
export const Fault = Trouble.extend({ times: z.int().min(1).default(1) })
export type Fault = z.infer<typeof Fault>
export type FaultInput = z.input<typeof Fault>

/** What the model does once. With `run` or `use` it goes on, without it is at its end. */
const Turn = z.strictObject({
  say: z.string().optional(),
  /** A line of shell, run by whatever tool the program has for it. `{result}` is what the last tool has brought. */
  run: z.string().optional(),
  /** Another tool, by the end of its name: programs put the name of its server before it. */
  use: z.strictObject({ tool: z.string(), input: z.record(z.string(), z.json()).default({}) }).optional(),
  refuse: z.boolean().optional(),
  /** Exactly these. What is left out is zero. */
  usage: Usage.optional(),
  /** Each time that it comes to this. */
  trouble: Trouble.optional(),
})
export type Turn = z.infer<typeof Turn>

const Task = z.strictObject({
  /** A text in the prompt, or several that are all in it. */
  match: z.union([z.string(), z.array(z.string()).min(1)]),
  model: z.string().optional(),
  /** As it is on the wire. */
  level: z.string().optional(),
  turns: z.array(Turn).min(1),
  /** Begins again after the last turn. */
  endless: z.boolean().optional(),
})

export const Script = z.strictObject({
  /** Left out: every key is right. */
  keys: z.array(z.string()).optional(),
  /** Left out: every model is there. */
  models: z.array(z.string()).optional(),
  /** Under which name another model answers. */
  served: z.record(z.string(), z.string()).default({}),
  /** The first that fits. */
  tasks: z.array(Task).default([]),
  faults: z.array(Fault).default([]),
})
export type Script = z.infer<typeof Script>
export type ScriptInput = z.input<typeof Script>

/** What the model does now. */
export function turnOf({ tasks }: Script, { prompt, model, level, results }: Conversation): Turn {
  const fits = (wanted: string | undefined, is: string | null): boolean =>
    wanted === undefined || wanted.toLowerCase() === is?.toLowerCase()
  const task = tasks.find((each) => isIn(prompt, each.match) && fits(each.model, model) && fits(each.level, level))
  if (!task) return { say: 'There is nothing in my script for this.' }
  const { turns, endless } = task
  return turns[endless ? results % turns.length : results] ?? { say: 'Done.' }
}

const isIn = (prompt: string, wanted: string | string[]): boolean =>
  [wanted].flat().every((each) => prompt.includes(each))

const NOTHING: Tokens = { input: 0, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0, output: 0, reasoning: 0 }

// The harder a model thinks, the more it costs.
const THOUGHTS: Record<string, number> = { minimal: 16, low: 64, medium: 256, high: 1024, xhigh: 2048, max: 4096 }

/** Follows from the request and the answer alone: the same call costs the same again. */
export function usageOf(turn: Turn, { level, results }: Conversation, size: { asked: number; said: number }): Tokens {
  if (turn.usage) return { ...NOTHING, ...given(turn.usage) }
  const all = Math.ceil(size.asked / BYTES_PER_TOKEN)
  const cacheRead = results > 0 ? Math.floor(all * 0.75) : 0
  const cacheWrite5m = Math.floor((all - cacheRead) / 2)
  const reasoning = THOUGHTS[level?.toLowerCase() ?? ''] ?? 0
  return {
    ...NOTHING,
    ...{ input: all - cacheRead - cacheWrite5m, cacheRead, cacheWrite5m },
    ...{ output: Math.ceil(size.said / BYTES_PER_TOKEN) + reasoning, reasoning },
  }
}

const given = (usage: z.infer<typeof Usage>): Partial<Tokens> =>
  Object.fromEntries(Object.entries(usage).filter(([, count]) => count !== undefined))
