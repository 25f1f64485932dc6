import { z } from 'zod'
import type { Conversation, MockUsage } from './conversation.ts'
import { BYTES_PER_TOKEN } from './tokens.ts'

const Count = z.int().min(0)

const Usage = z
  .object({
    input: Count,
    cacheRead: Count,
    cacheWrite5m: Count,
    cacheWrite1h: Count,
    output: Count,
    reasoning: Count,
  })
  .partial()

/** The way in which a call fails. */
const Trouble = z.strictObject({
  /** Status of an error response. */
  status: z.int().min(400).max(599).optional(),
  message: z.string().optional(),
  retryAfter: z.string().optional(),
  /** Hangs before the answer or after its first events. */
  hang: z.enum(['before', 'within']).optional(),
  /** Stops sending after this many events. */
  hangAfter: z.int().min(0).optional(),
  /** Closes the connection after this many events. */
  cutAfter: z.int().min(0).optional(),
  /** Sends malformed events, `within` the others or instead of the rest. */
  malformed: z.enum(['within', 'after']).optional(),
  /** Delay between two events. */
  pauseMs: z.int().min(0).optional(),
  refuse: z.boolean().optional(),
})
export type CallFault = z.infer<typeof Trouble>

/** Makes the next `times` calls fail. */
export const Fault = Trouble.extend({ times: z.int().min(1).default(1) })
export type Fault = z.infer<typeof Fault>
export type FaultInput = z.input<typeof Fault>

/** A turn of the model. The conversation continues after `run` or `use` and ends otherwise. */
const Turn = z.strictObject({
  say: z.string().optional(),
  /** A shell command, run with the program's shell tool. `{result}` is the result of the last tool call. */
  run: z.string().optional(),
  /** Another tool, matched by the end of its name, because programs prefix the name of the MCP server. */
  use: z.strictObject({ tool: z.string(), input: z.record(z.string(), z.json()).default({}) }).optional(),
  refuse: z.boolean().optional(),
  /** Exact usage. Omitted classes are zero. */
  usage: Usage.optional(),
  /** Fault of every call that reaches this turn. */
  trouble: Trouble.optional(),
})
export type MockTurn = z.infer<typeof Turn>

const Task = z.strictObject({
  /** Text or texts that must all occur in the prompt. */
  match: z.union([z.string(), z.array(z.string()).min(1)]),
  model: z.string().optional(),
  /** Reasoning level as sent in the request. */
  level: z.string().optional(),
  turns: z.array(Turn).min(1),
  /** Starts again after the last turn. */
  endless: z.boolean().optional(),
})

export const ProviderScript = z.strictObject({
  /** Valid keys. If omitted, every key is valid. */
  keys: z.array(z.string()).optional(),
  /** Known models. If omitted, every model is known. */
  models: z.array(z.string()).optional(),
  /** Maps a requested model to the name in the answer. */
  served: z.record(z.string(), z.string()).default({}),
  /** The first matching task applies. */
  tasks: z.array(Task).default([]),
  faults: z.array(Fault).default([]),
})
export type ProviderScript = z.infer<typeof ProviderScript>
export type ScriptInput = z.input<typeof ProviderScript>

/** Returns the turn for a request. */
export function turnOf({ tasks }: ProviderScript, { prompt, model, level, results }: Conversation): MockTurn {
  const fits = (wanted: string | undefined, is: string | null): boolean =>
    wanted === undefined || wanted.toLowerCase() === is?.toLowerCase()
  const task = tasks.find((each) => isIn(prompt, each.match) && fits(each.model, model) && fits(each.level, level))
  if (!task) return { say: 'The script has no task for this prompt.' }
  const { turns, endless } = task
  return turns[endless ? results % turns.length : results] ?? { say: 'Done.' }
}

const isIn = (prompt: string, wanted: string | string[]): boolean =>
  [wanted].flat().every((each) => prompt.includes(each))

const NOTHING: MockUsage = { input: 0, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0, output: 0, reasoning: 0 }

// Higher reasoning levels cost more.
const THOUGHTS: Record<string, number> = { minimal: 16, low: 64, medium: 256, high: 1024, xhigh: 2048, max: 4096 }

/** Computes usage from request and answer only, so that the same call always costs the same. */
export function usageOf(
  turn: MockTurn,
  { level, results }: Conversation,
  size: { asked: number; said: number },
): MockUsage {
  if (turn.usage) return { ...NOTHING, ...given(turn.usage) }
  const all = Math.ceil(size.asked / BYTES_PER_TOKEN)
  const cacheRead = results > 0 ? Math.floor(all * 0.75) : 0
  const cacheWrite5m = Math.floor((all - cacheRead) / 2)
  const reasoning = THOUGHTS[level?.toLowerCase() ?? ''] ?? 0
  return {
    ...NOTHING,
    input: all - cacheRead - cacheWrite5m,
    cacheRead,
    cacheWrite5m,
    output: Math.ceil(size.said / BYTES_PER_TOKEN) + reasoning,
    reasoning,
  }
}

const given = (usage: z.infer<typeof Usage>): Partial<MockUsage> =>
  Object.fromEntries(Object.entries(usage).filter(([, count]) => count !== undefined))
