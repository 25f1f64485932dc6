import type { RuleMatch, SafetyRule } from '../rule.ts'
import { lineAt, type TaskView, type TextFile } from '../view.ts'

/** Tag characters spell words that no font displays; directional overrides reverse text. */
const HIDDEN =
  /[\u202D\u202E]|[\u{E0020}-\u{E007F}]|(?:[\u200B-\u200D\u2060-\u2064\uFEFF\u180E]|[\uFE00-\uFE0F\u{E0100}-\u{E01EF}\u034F]){8}/gu
/** Flags of England, Scotland and Wales consist of tag characters. */
const FLAG = /\u{1F3F4}[\u{E0061}-\u{E007A}]{4,6}\u{E007F}/gu
const INVISIBLE = /[\u200B\u200E\u200F\u202A-\u202C\u2060-\u2064\u2066-\u2069\u180E\u00AD]/g

const MARKERS = new RegExp(
  [
    '\\b(?:ignore|disregard|forget|override)\\s{1,5}(?:all\\s{1,5}|any\\s{1,5}|the\\s{1,5}|your\\s{1,5}){0,2}(?:previous|prior|above|earlier|preceding|system)\\s{1,5}(?:\\w{1,20}\\s{1,5})?(?:instructions?|prompts?|messages?|rules|guidelines)',
    '\\bdo\\s{1,5}not\\s{1,5}(?:tell|inform|mention|reveal)\\b[^.\\n]{0,40}\\b(?:user|human|operator)\\b',
    '\\byou\\s{1,5}are\\s{1,5}now\\s{1,5}(?:in\\s{1,5}(?:developer|dan|god)\\s{1,5}mode|dan\\b)',
    '<\\|(?:im_start|im_end|system|endoftext|start_header_id)\\|>',
    '\\[/?INST\\]|<<SYS>>',
    '</?(?:system|system[-_]prompt|system[-_]reminder)>',
  ].join('|'),
  'gi',
)

/** Maximum number of matches per file. */
const MATCHES_MAX = 5

const matchPattern = ({ path, text }: TextFile, pattern: RegExp, detail: string): RuleMatch[] =>
  [...text.matchAll(pattern)].slice(0, MATCHES_MAX).map((match) => ({ path, line: lineAt(text, match.index), detail }))

/** Lists the comments of a Markdown text. */
function listComments(text: string): { start: number; text: string }[] {
  const comments: { start: number; text: string }[] = []
  for (let start = text.indexOf('<!--'); start >= 0; ) {
    const end = text.indexOf('-->', start)
    comments.push({ start, text: text.slice(start, end < 0 ? undefined : end) })
    start = end < 0 ? -1 : text.indexOf('<!--', end)
  }
  return comments
}

const matchHiddenOrders = ({ instructions }: TaskView): RuleMatch[] =>
  instructions.flatMap(({ path, text }) =>
    listComments(text)
      .filter((comment) => comment.text.search(MARKERS) >= 0)
      .slice(0, MATCHES_MAX)
      .map(({ start }) => ({
        path,
        line: lineAt(text, start),
        detail: 'A comment contains instructions to the agent.',
      })),
  )

function matchOrders({ instructions }: TaskView): RuleMatch[] {
  return instructions.flatMap((file) => matchPattern(file, MARKERS, 'The text looks like a prompt injection.'))
}

/** Rules for text in an instruction that an agent reads and a person does not see. */
export const instructionRules: SafetyRule[] = [
  {
    id: 'instruction_hidden_text',
    severity: 'block',
    description: 'invisible text in an instruction',
    check: ({ instructions }) =>
      instructions.flatMap((file) =>
        matchPattern({ ...file, text: file.text.replaceAll(FLAG, '') }, HIDDEN, 'The line contains invisible text.'),
      ),
  },
  {
    id: 'instruction_invisible',
    severity: 'warn',
    description: 'single characters in an instruction that are not shown',
    check: ({ instructions }) =>
      instructions.flatMap((file) =>
        matchPattern(file, INVISIBLE, 'The line contains an invisible character.').slice(0, 1),
      ),
  },
  {
    id: 'instruction_hidden_orders',
    severity: 'block',
    description: 'orders to the agent in a comment of an instruction',
    check: matchHiddenOrders,
  },
  {
    id: 'instruction_orders',
    severity: 'warn',
    description: 'marks of prompt injection in an instruction',
    check: matchOrders,
  },
]
