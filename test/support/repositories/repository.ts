// Sample projects with a known history. Each pull request states its expected result and the reason.
import { git, type HistoryCommit, writeHistory } from '../histories.ts'

/** Replacements in a file. Each text must occur exactly once, otherwise building the history fails. */
type Replacements = readonly (readonly [before: string, after: string])[]

/** The text of a file, null to delete it, or replacements. Text is latin1, as in all histories. */
export type Edits = Record<string, string | null | Replacements>

type PullDifficulty = 'easy' | 'medium' | 'hard'

/** A pull request with its expected result: `ready`, or the reason why it cannot become a task. */
export type SamplePull = {
  number: number
  title: string
  body?: string
  author?: string
  /** Lands by a merge commit instead of a squashed commit. */
  isMerge?: boolean
  /** Name of the merged branch. */
  branch?: string
  /** Seconds since 1970. */
  at?: number
  edits: Edits
  /** The code is malicious and must never run outside a sandbox. */
  isHostile?: boolean
  expected: string
  /** Describes the defect if `expected` does not. */
  truth?: string
  /** Difficulty by structure. Set for candidates only. */
  difficulty?: PullDifficulty
}

/** A commit without a pull request, which repairs what the previous one broke. */
export type SamplePush = { message: string; edits: Edits }

export type SampleRepository = {
  name: string
  language: 'python' | 'typescript' | 'go' | 'rust'
  base: Record<string, string>
  steps: readonly (SamplePull | SamplePush)[]
  /** A tag at the end of the branch, in the future of every pull request. */
  tag: string
}

const DAY = 86_400
/** The first of March 2025. */
const START = 1_740_787_200

const isPull = (step: SamplePull | SamplePush): step is SamplePull => 'number' in step

export const listPulls = ({ steps }: SampleRepository): SamplePull[] => steps.filter(isPull)

/** Lists the pull requests that pass screening, whatever their execution shows. */
export const listCandidates = (repository: SampleRepository): SamplePull[] =>
  listPulls(repository).filter(({ difficulty }) => difficulty !== undefined)

/** Writes a bare repository. Commit ids are deterministic. */
export async function writeRepository(folder: string, repository: SampleRepository): Promise<void> {
  await writeHistory(folder, changesOf(repository))
  await git(folder, ['update-ref', `refs/tags/${repository.tag}`, 'refs/heads/main'])
}

/** Yields the tree before and after each pull request. */
export function* listLandedTrees(
  repository: SampleRepository,
): Generator<{ pull: SamplePull; before: SourceTree; after: SourceTree }> {
  let before: SourceTree = new Map(Object.entries(repository.base))
  for (const step of repository.steps) {
    const after = applyTreeEdits(before, step.edits)
    if (isPull(step)) yield { pull: step, before, after }
    before = after
  }
}

export type SourceTree = ReadonlyMap<string, string>

function* changesOf({ base, steps }: SampleRepository): Generator<HistoryCommit> {
  yield { message: 'First light', files: base, at: START }
  let tree: SourceTree = new Map(Object.entries(base))
  for (const [place, step] of steps.entries()) {
    const before = tree
    tree = applyTreeEdits(tree, step.edits)
    const files = Object.fromEntries(Object.keys(step.edits).map((path) => [path, tree.get(path) ?? null]))
    const at = (isPull(step) ? step.at : undefined) ?? START + (place + 1) * DAY
    if (before === tree) throw new Error('A step that changes nothing has no edits.')
    yield { files, at, ...(isPull(step) ? asChange(step) : { message: step.message }) }
  }
}

function asChange(pull: SamplePull): Pick<HistoryCommit, 'message' | 'author' | 'isMerge'> {
  const { number, title, body = '', author, isMerge = false, branch = 'ada/work' } = pull
  const subject = isMerge ? `Merge pull request #${number} from ${branch}\n\n${title}` : `${title} (#${number})`
  return { message: `${subject}\n\n${body}`.trim(), isMerge, author }
}

/** Returns the tree with these edits. */
export function applyTreeEdits(tree: SourceTree, edits: Edits): SourceTree {
  const next = new Map(tree)
  for (const [path, edit] of Object.entries(edits)) {
    if (edit === null) next.delete(path)
    else next.set(path, typeof edit === 'string' ? edit : replaced(path, tree.get(path), edit))
  }
  return next
}

function replaced(path: string, text: string | undefined, replacements: Replacements): string {
  if (text === undefined) throw new Error(`There is no ${path} to change.`)
  return replacements.reduce((rest, [before, after]) => {
    const pieces = rest.split(before)
    if (pieces.length !== 2) throw new Error(`${path} has this ${pieces.length - 1} times: ${before}`)
    return pieces.join(after)
  }, text)
}
