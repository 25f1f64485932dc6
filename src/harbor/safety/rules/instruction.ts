import { lineAt } from '../lines.ts'
import type { Found, Rule } from '../rule.ts'
import type { TextFile } from '../task-parts.ts'
import type { View } from '../view.ts'

// What an agent would read in an instruction and a person would not see.

/** Letters of tags spell words that no font shows; overrides turn a text around. */
const HIDDEN =
  /[\u202D\u202E]|[\u{E0020}-\u{E007F}]|(?:[\u200B-\u200D\u2060-\u2064\uFEFF\u180E]|[\uFE00-\uFE0F\u{E0100}-\u{E01EF}\u034F]){8}/gu
/** The flags of England, Scotland and Wales are written with tags. */
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

const foundIn = ({ path, text }: TextFile, pattern: RegExp, detail: string): Found[] =>
  [...text.matchAll(pattern)].slice(0, 5).map((match) => ({ path, line: lineAt(text, match.index), detail }))

/** The comments of a markdown text, and all else. */
function comments(text: string): { start: number; text: string }[] {
  const found: { start: number; text: string }[] = []
  for (let start = text.indexOf('<!--'); start >= 0; ) {
    const end = text.indexOf('-->', start)
    found.push({ start, text: text.slice(start, end < 0 ? undefined : end) })
    start = end < 0 ? -1 : text.indexOf('<!--', end)
  }
  return found
}

const hiddenOrders = ({ instructions }: View): Found[] =>
  instructions.flatMap(({ path, text }) =>
    comments(text)
      .filter((comment) => comment.text.search(MARKERS) >= 0)
      .slice(0, 5)
      .map(({ start }) => ({ path, line: lineAt(text, start), detail: 'A comment gives orders to the agent.' })),
  )

function openOrders({ instructions }: View): Found[] {
  return instructions.flatMap((file) => foundIn(file, MARKERS, 'It reads like an attempt to talk an agent over.'))
}

export const instructionRules: Rule[] = [
  {
    id: 'instruction_hidden_text',
    severity: 'block',
    what: 'words in an instruction that nobody can see',
    check: ({ instructions }) =>
      instructions.flatMap((file) =>
        foundIn({ ...file, text: file.text.replaceAll(FLAG, '') }, HIDDEN, 'There is text here that is not shown.'),
      ),
  },
  {
    id: 'instruction_invisible',
    severity: 'warn',
    what: 'single characters in an instruction that are not shown',
    check: ({ instructions }) =>
      instructions.flatMap((file) =>
        foundIn(file, INVISIBLE, 'There is a character here that is not shown.').slice(0, 1),
      ),
  },
  {
    id: 'instruction_hidden_orders',
    severity: 'block',
    what: 'orders to the agent in a comment of an instruction',
    check: hiddenOrders,
  },
  {
    id: 'instruction_orders',
    severity: 'warn',
    what: 'marks of prompt injection in an instruction',
    check: openOrders,
  },
]
