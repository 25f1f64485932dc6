/** A name, literal or path that the tests use, the change introduces, and a solver could not guess. */
export type PinnedSymbol = { kind: 'name' | 'literal' | 'path'; text: string; signature: string | null }

/** Structured answer of the author model. */
export type InstructionDraft = {
  title: string
  problem: string
  expected: string
  actual: string | null
  reproduction: string | null
  constraints: string[]
}

/** The whole text that an agent gets. The part on names is ours, and the model has no say in it. */
export function renderInstruction(draft: InstructionDraft, pinned: readonly PinnedSymbol[]): string {
  const parts = [
    `# ${oneLine(draft.title)}`,
    draft.problem.trim(),
    ...renderSection('Expected behaviour', draft.expected),
    ...renderSection('Actual behaviour', draft.actual),
    ...renderSection('How to reproduce', draft.reproduction),
    ...renderSection('Constraints', draft.constraints.map((each) => `- ${oneLine(each)}`).join('\n')),
  ]
  return `${parts.join('\n\n')}\n${renderInterface(pinned)}`
}

const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ').trim()

const renderSection = (title: string, text: string | null): string[] =>
  text === null || text.trim() === '' ? [] : [`## ${title}`, closeFence(text.trim())]

/** A fence that is left open would swallow what follows. */
const closeFence = (text: string): string =>
  (text.match(/^ {0,3}```/gm)?.length ?? 0) % 2 === 1 ? `${text}\n\`\`\`` : text

/** Nothing at all where there is nothing to say. Always the last part of an instruction. */
export function renderInterface(pinned: readonly PinnedSymbol[]): string {
  if (pinned.length === 0) return ''
  const lines = [
    ...renderList('New files, by path:', pinned, 'path'),
    ...renderList('Names:', pinned, 'name'),
    ...renderList('Texts, to the letter:', pinned, 'literal'),
  ]
  return `\n## Interface\n\nOther code relies on exactly these.\n\n${lines.join('\n')}\n`
}

function renderList(title: string, pinned: readonly PinnedSymbol[], kind: PinnedSymbol['kind']): string[] {
  const own = pinned.filter((each) => each.kind === kind)
  return own.length === 0 ? [] : [title, '', ...own.map(renderLine), '']
}

const renderLine = ({ text, signature }: PinnedSymbol): string =>
  signature === null ? `- ${quoteCode(text)}` : `- ${quoteCode(text)}: ${quoteCode(signature)}`

/** Quoted with one more backtick than it has in a row. */
function quoteCode(text: string): string {
  const longest = Math.max(0, ...[...text.matchAll(/`+/g)].map(([run]) => run.length))
  const ticks = '`'.repeat(longest + 1)
  return longest > 0 ? `${ticks} ${text} ${ticks}` : `${ticks}${text}${ticks}`
}
