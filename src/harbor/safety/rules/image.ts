import { createHash } from 'node:crypto'
import { type CopySource, copiesPath, listCopies } from '../../dockerfile.ts'
import type { RuleMatch, SafetyRule } from '../rule.ts'
import { memoize, type ScannedFile, type TaskView, type UsedDockerfile } from '../view.ts'

const HIDDEN = /^(?:steps\/[^/]+\/)?(?:tests|solution)\//
const CODE =
  /\.(?:sh|bat|ps1|py|js|mjs|cjs|ts|tsx|jsx|go|rs|c|cc|cpp|h|hpp|java|kt|scala|rb|pl|php|cs|swift|lua|sql|r|patch|diff)$/i
/** Minimum size of a file that is compared. Shorter files may be equal by chance. */
const BYTES_MIN = 33

/** A file of the environment that is identical to a hidden one. `isAnswer`: it is code that grades or solves the task. */
type Twin = { path: string; hidden: string; isAnswer: boolean }

/** A twin in the image. `at` is the instruction that copies it; `isRemoved` means that a later one deletes it. */
type Leak = Twin & { at: { path: string; line?: number }; isRemoved: boolean }

const listLeaks = memoize((view: TaskView): Leak[] => {
  const twins = listTwins(view)
  if (twins.length === 0) return []
  const isPrebuilt = view.outline?.environment.image && view.dockerfiles.every(({ isForAgent }) => !isForAgent)
  if (isPrebuilt) return twins.map((twin) => ({ ...twin, at: { path: twin.path }, isRemoved: false }))
  const verifiers = view.dockerfiles.filter(({ isForAgent }) => !isForAgent)
  return view.dockerfiles
    .filter(({ isForAgent }) => isForAgent)
    .flatMap((used) => listCopiedTwins(used, twins, verifiers))
})

function listCopiedTwins(used: UsedDockerfile, twins: Twin[], verifiers: UsedDockerfile[]): Leak[] {
  const copies = listCopies(used.dockerfile)
  return twins
    .filter(({ path }) => path.startsWith(`${used.context}/`))
    .flatMap((twin) => {
      const path = twin.path.slice(used.context.length + 1)
      const copy = copies.find((each) => copiesPath(each, path))
      if (
        !copy ||
        (!twin.isAnswer && verifiers.some((verifier) => isSharedWithVerifier(verifier, copy, { ...twin, path })))
      )
        return []
      return [{ ...twin, at: { path: used.path, line: copy.line }, isRemoved: isRemoved(used, copy, twin.path) }]
    })
}

/** Returns true if the image of a separate verifier copies the same file from the same path by the same instruction. */
const isSharedWithVerifier = (verifier: UsedDockerfile, { source, target }: CopySource, { path, hidden }: Twin) =>
  hidden === `${verifier.context}/${path}` &&
  listCopies(verifier.dockerfile).some((copy) => copy.source === source && copy.target === target)

const baseName = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

const isRemoved = ({ dockerfile }: UsedDockerfile, { target, line }: CopySource, path: string): boolean =>
  dockerfile.stages
    .flatMap(({ instructions }) => instructions)
    .filter((each) => each.keyword === 'RUN' && each.line > line && /\brm\b/.test(each.text))
    .some(({ text }) => text.includes(baseName(path)) || (target.length > 1 && text.includes(target)))

/** Bounds the comparison of twins with COPY instructions. Solutions and test scripts come first. */
const TWINS_MAX = 500

function listTwins(view: TaskView): Twin[] {
  const pairs = listPairs(view).toSorted((a, b) => Number(SOLVES.test(b.hidden)) - Number(SOLVES.test(a.hidden)))
  const instructions = view.instructions.map(({ text }) => text).join('\n')
  const scripts = listTestScripts(view)
  return pairs.slice(0, TWINS_MAX).map(({ path, hidden }) => ({
    path,
    hidden,
    isAnswer: CODE.test(hidden) && !instructions.includes(baseName(path)) && isGradingFile(hidden, scripts),
  }))
}

/** Paths of solutions and test scripts. */
const SOLVES = /(?:^|\/)solution\/|\/test\.(?:sh|bat)$/

function listPairs(view: TaskView): Omit<Twin, 'isAnswer'>[] {
  const hidden = new Map<string, string>()
  const sizes = new Set<number>()
  for (const file of view.scanned.values()) {
    if (!HIDDEN.test(file.path) || !file.isWhole || file.bytes.length < BYTES_MIN) continue
    hidden.set(hashFile(file), file.path)
    sizes.add(file.bytes.length)
  }
  return [...view.scanned.values()]
    .filter(({ path, isWhole, bytes }) => path.startsWith('environment/') && isWhole && sizes.has(bytes.length))
    .flatMap((file) => {
      const original = hidden.get(hashFile(file))
      return original === undefined ? [] : [{ path: file.path, hidden: original }]
    })
}

const hashFile = ({ bytes }: ScannedFile): string => createHash('sha256').update(bytes).digest('base64')

/** Returns true for a file of the solution, a test script or a file that one names. Other tests may belong to the project. */
const isGradingFile = (path: string, scripts: { path: string; text: string }[]): boolean =>
  /(?:^|\/)solution\//.test(path) ||
  scripts.some((script) => script.path === path || script.text.includes(baseName(path)))

function listTestScripts(view: TaskView): { path: string; text: string }[] {
  const paths = new Set(view.outline?.steps.map(({ verifier }) => verifier.testScript))
  return view.texts.filter(({ path }) => paths.has(path))
}

const describeLeaks = (leaks: Leak[]): RuleMatch[] =>
  leaks.map(({ at, path, hidden }) => ({ ...at, detail: `${path} is identical to ${hidden}.` }))

/** Matches full clones, which include the commits after the checked-out one, and so the fix. */
function matchGitHistory({ dockerfiles, files }: TaskView): RuleMatch[] {
  const cloned = dockerfiles
    .filter(({ isForAgent }) => isForAgent)
    .flatMap(({ path, dockerfile }) => {
      const runs = dockerfile.stages
        .flatMap(({ instructions }) => instructions)
        .filter(({ keyword }) => keyword === 'RUN')
      const isStripped = runs.some(({ text }) => /\brm\b[^;&|]{0,200}\.git\b/.test(text))
      const clones = runs.filter(({ text }) => /\bgit\s+clone\b/.test(text) && !/--depth[ =]/.test(text))
      return isStripped ? [] : clones.map(({ line }) => ({ path, line, detail: HISTORY }))
    })
  const historyFile = files.find(({ path }) => /^environment\/(?:.*\/)?\.git\/(?:objects|packed-refs)/.test(path))
  return historyFile ? [...cloned, { path: historyFile.path, detail: HISTORY }] : cloned
}

const HISTORY = 'The agent can read the history of this repository. Check that it does not contain the solution.'

/** Rules for content that an agent must not find in its image: hidden tests, the solution, the fix in a git history. */
export const imageRules: SafetyRule[] = [
  {
    id: 'tests_in_image',
    severity: 'block',
    description: 'the tests that judge the agent, or the solution, in the agent’s image',
    check: (view) => describeLeaks(listLeaks(view).filter(({ isAnswer, isRemoved: removed }) => isAnswer && !removed)),
  },
  {
    id: 'answers_in_layers',
    severity: 'block',
    description: 'tests or the solution copied into the image and deleted later, which leaves them in its history',
    check: (view) => describeLeaks(listLeaks(view).filter(({ isAnswer, isRemoved: removed }) => isAnswer && removed)),
  },
  {
    id: 'tests_repeated',
    severity: 'warn',
    description: 'other files of the tests or the solution that the image has too',
    check: (view) => describeLeaks(listLeaks(view).filter(({ isAnswer }) => !isAnswer)),
  },
  {
    id: 'git_history',
    severity: 'warn',
    description: 'a repository with its history in the image',
    check: matchGitHistory,
  },
]
