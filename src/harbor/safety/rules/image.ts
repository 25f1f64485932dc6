import { createHash } from 'node:crypto'
import { type CopyOf, copiesOf, takes } from '../copies.ts'
import { oncePer } from '../once.ts'
import type { Found, Rule } from '../rule.ts'
import type { ScannedFile, UsedDockerfile } from '../task-parts.ts'
import type { View } from '../view.ts'

// What an agent must not find in its image: the tests that judge it, the solution, the fix in a history.

const HIDDEN = /^(?:steps\/[^/]+\/)?(?:tests|solution)\//
const CODE =
  /\.(?:sh|bat|ps1|py|js|mjs|cjs|ts|tsx|jsx|go|rs|c|cc|cpp|h|hpp|java|kt|scala|rb|pl|php|cs|swift|lua|sql|r|patch|diff)$/i
/** Shorter files are alike by chance. */
const BYTES_MIN = 33

/** A file of the environment with the very bytes of a hidden one. */
type Twin = { path: string; hidden: string; isAnswer: boolean }

/** In the image: the line that copies it, and whether a later line takes it away again. */
type Leak = Twin & { at: { path: string; line?: number }; isRemoved: boolean }

const leaksOf = oncePer((view: View): Leak[] => {
  const twins = twinsOf(view)
  if (twins.length === 0) return []
  const isPrebuilt = view.outline?.environment.image && view.dockerfiles.every(({ isForAgent }) => !isForAgent)
  if (isPrebuilt) return twins.map((twin) => ({ ...twin, at: { path: twin.path }, isRemoved: false }))
  const verifiers = view.dockerfiles.filter(({ isForAgent }) => !isForAgent)
  return view.dockerfiles.filter(({ isForAgent }) => isForAgent).flatMap((used) => copiedBy(used, twins, verifiers))
})

function copiedBy(used: UsedDockerfile, twins: Twin[], verifiers: UsedDockerfile[]): Leak[] {
  const copies = copiesOf(used)
  return twins
    .filter(({ path }) => path.startsWith(`${used.context}/`))
    .flatMap((twin) => {
      const path = twin.path.slice(used.context.length + 1)
      const copy = copies.find((each) => takes(each, path))
      if (!copy || (!twin.isAnswer && verifiers.some((verifier) => isOfBoth(verifier, copy, { ...twin, path }))))
        return []
      return [{ ...twin, at: { path: used.path, line: copy.line }, isRemoved: isRemoved(used, copy, twin.path) }]
    })
}

/** A verifier's own image may be built on the same environment: by the same line, from the same path of its folder. */
const isOfBoth = (verifier: UsedDockerfile, { source, target }: CopyOf, { path, hidden }: Twin) =>
  hidden === `${verifier.context}/${path}` &&
  copiesOf(verifier).some((copy) => copy.source === source && copy.target === target)

const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

const isRemoved = ({ dockerfile }: UsedDockerfile, { target, line }: CopyOf, path: string): boolean =>
  dockerfile.stages
    .flatMap(({ instructions }) => instructions)
    .filter((each) => each.keyword === 'RUN' && each.line > line && /\brm\b/.test(each.text))
    .some(({ text }) => text.includes(nameOf(path)) || (target.length > 1 && text.includes(target)))

/** Each is compared with each line that copies: a pile of them must not take for ever. Answers are looked at first. */
const TWINS_MAX = 500

function twinsOf(view: View): Twin[] {
  const pairs = pairsOf(view).toSorted((a, b) => Number(SOLVES.test(b.hidden)) - Number(SOLVES.test(a.hidden)))
  const told = view.instructions.map(({ text }) => text).join('\n')
  const scripts = scriptsOf(view)
  return pairs.slice(0, TWINS_MAX).map(({ path, hidden }) => ({
    path,
    hidden,
    isAnswer: CODE.test(hidden) && !told.includes(nameOf(path)) && isJudge(hidden, scripts),
  }))
}

const SOLVES = /(?:^|\/)solution\/|\/test\.(?:sh|bat)$/

function pairsOf(view: View): Omit<Twin, 'isAnswer'>[] {
  const hidden = new Map<string, string>()
  const sizes = new Set<number>()
  for (const file of view.scanned.values()) {
    if (!HIDDEN.test(file.path) || !file.isWhole || file.bytes.length < BYTES_MIN) continue
    hidden.set(digestOf(file), file.path)
    sizes.add(file.bytes.length)
  }
  return [...view.scanned.values()]
    .filter(({ path, isWhole, bytes }) => path.startsWith('environment/') && isWhole && sizes.has(bytes.length))
    .flatMap((file) => {
      const original = hidden.get(digestOf(file))
      return original === undefined ? [] : [{ path: file.path, hidden: original }]
    })
}

const digestOf = ({ bytes }: ScannedFile): string => createHash('sha256').update(bytes).digest('base64')

/** All of a solution, the test script, and the tests that it names. Other tests may be the project's own. */
const isJudge = (path: string, scripts: { path: string; text: string }[]): boolean =>
  /(?:^|\/)solution\//.test(path) ||
  scripts.some((script) => script.path === path || script.text.includes(nameOf(path)))

function scriptsOf(view: View): { path: string; text: string }[] {
  const paths = new Set(view.outline?.steps.map(({ verifier }) => verifier.testScript))
  return view.texts.filter(({ path }) => paths.has(path))
}

const described = (leaks: Leak[]): Found[] =>
  leaks.map(({ at, path, hidden }) => ({ ...at, detail: `${path} has the very bytes of ${hidden}.` }))

/** A clone brings all commits after the one that is checked out, the fix among them. */
function gitHistory({ dockerfiles, files }: View): Found[] {
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
  const brought = files.find(({ path }) => /^environment\/(?:.*\/)?\.git\/(?:objects|packed-refs)/.test(path))
  return brought ? [...cloned, { path: brought.path, detail: HISTORY }] : cloned
}

const HISTORY = 'The agent can read this repository’s history. Is the solution in it?'

export const imageRules: Rule[] = [
  {
    id: 'tests_in_image',
    severity: 'block',
    what: 'the tests that judge the agent, or the solution, in the agent’s image',
    check: (view) => described(leaksOf(view).filter(({ isAnswer, isRemoved: gone }) => isAnswer && !gone)),
  },
  {
    id: 'answers_in_layers',
    severity: 'block',
    what: 'tests or the solution copied into the image and deleted later, which leaves them in its history',
    check: (view) => described(leaksOf(view).filter(({ isAnswer, isRemoved: gone }) => isAnswer && gone)),
  },
  {
    id: 'tests_repeated',
    severity: 'warn',
    what: 'other files of the tests or the solution that the image has too',
    check: (view) => described(leaksOf(view).filter(({ isAnswer }) => !isAnswer)),
  },
  {
    id: 'git_history',
    severity: 'warn',
    what: 'a repository with its history in the image',
    check: gitHistory,
  },
]
