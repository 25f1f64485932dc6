import { type LintFacts, type LintFinding, type LintRule, newFinding, type ParsedInstruction } from './finding.ts'
import { indexOfWord } from './whole-word.ts'

/** A match after a digit and a dot is part of a number. */
const HEX = /(?<![0-9A-Za-z_]|\d\.)[0-9a-f]{7,40}(?![0-9A-Za-z_])/gi

/** A number is none, nor a word: an id has digits and letters. One that is known is found whatever it looks like. */
function findCommits({ free }: ParsedInstruction, facts: LintFacts): LintFinding[] {
  return listMatches(free, HEX)
    .filter(
      (id) => (/\d/.test(id) && /[a-f]/i.test(id)) || facts.commits.some((each) => each.startsWith(id.toLowerCase())),
    )
    .map((id) => newFinding('leak_commit', 'This looks like the id of a commit.', id))
}

const HOSTS = [
  'github.com',
  'githubusercontent.com',
  'github.io',
  'gitlab.com',
  'bitbucket.org',
  'codeberg.org',
  'sourcehut.org',
  'git.sr.ht',
]

function findUrls({ prose }: ParsedInstruction, { upstream }: LintFacts): LintFinding[] {
  const places = [...HOSTS, ...upstream]
    .map((place) => place.toLowerCase().replaceAll(/^\w+:\/\/|\/+$/g, ''))
    .filter((place) => place.length >= 4)
  const small = prose.toLowerCase()
  return [...new Set(places)]
    .filter((place) => indexOfWord(small, place) >= 0)
    .map((place) =>
      newFinding(
        'leak_url',
        'This leads to where the change can be found.',
        excerptAt(prose, indexOfWord(small, place)),
      ),
    )
}

const NUMBERS = [
  /(?<![\w&/#])#\d{1,7}\b/g,
  /\b(?:prs?|pull requests?|issues?|merge requests?|mrs?|tickets?|gh)[\s-]{0,3}(?:no\.?|numbers?|nr\.?)?\s{0,2}[#!]?\d{1,7}\b/gi,
  /(?<!\w)![1-9]\d{1,6}\b/g,
]

const findNumbers = ({ free }: ParsedInstruction): LintFinding[] =>
  NUMBERS.flatMap((pattern) => listMatches(free, pattern)).map((text) =>
    newFinding('leak_number', 'This looks like the number of an issue or a pull request.', text),
  )

/** Matches lower-case single-word logins only as mentions, because many are ordinary words. */
function findAuthors({ free }: ParsedInstruction, facts: LintFacts): LintFinding[] {
  const small = free.toLowerCase()
  return facts.authors
    .map((name) => name.trim())
    .filter((name) => name.length >= 3)
    .filter((name) =>
      /^[a-z]+$/.test(name) ? indexOfWord(free, `@${name}`) >= 0 : indexOfWord(small, name.toLowerCase()) >= 0,
    )
    .map((name) => newFinding('leak_author', 'This names who wrote the change.', name))
}

const ID_SPLIT = /::| > | › |#|\/| /
const ID_NAME_MIN = 5

/** The whole id, and its own name where that is a name and not a sentence. */
function findTestIds({ free }: ParsedInstruction, { failToPass, pinned }: LintFacts): LintFinding[] {
  const own = new Set(pinned.map(({ text }) => text))
  const ids = failToPass.flatMap((id) => {
    const name = (id.split(ID_SPLIT).at(-1) ?? '').replace(/\[.*$/s, '').split('.').at(-1) ?? ''
    const isName = name.length >= ID_NAME_MIN && /^\w+$/.test(name) && /test|_|[a-z][A-Z]/.test(name) && !own.has(name)
    return isName ? [id, name] : [id]
  })
  return findTexts('leak_test_id', 'This is the name of a test that judges.', free, ids)
}

/** Matches bare file names only if they look like tests; data files have arbitrary names. */
function findTestFiles({ free }: ParsedInstruction, { hidden, pinned }: LintFacts): LintFinding[] {
  const own = new Set(pinned.map(({ text }) => text))
  const paths = [...hidden.files.map(({ path }) => path), ...hidden.deleted]
  const names = paths.map((path) => path.slice(path.lastIndexOf('/') + 1)).filter((name) => /test|spec/i.test(name))
  const all = [...paths, ...names].filter((text) => !own.has(text))
  return findTexts('leak_test_file', 'This is a file of the tests that judge.', free, all)
}

const TESTS =
  /\b(?:the|these|those|hidden|failing|existing|provided|accompanying|our|unit|regression)\s+(?:(?:new|hidden|failing|existing|unit|updated)\s+)?tests?\b|\btest\s+(?:suites?|files?|cases?)\b/gi

const findTestMentions = ({ free }: ParsedInstruction): LintFinding[] =>
  listMatches(free, TESTS).map((text) =>
    newFinding('leak_tests', 'An instruction says what is wanted, and not how it is judged.', text),
  )

const findTexts = (rule: LintRule, detail: string, text: string, wanted: readonly string[]): LintFinding[] =>
  [...new Set(wanted)]
    .filter((each) => each.length >= 4 && indexOfWord(text, each) >= 0)
    .map((each) => newFinding(rule, detail, each))

const MATCHES_MAX = 20

const listMatches = (text: string, pattern: RegExp): string[] =>
  [...new Set([...text.matchAll(pattern)].map(([match]) => match))].slice(0, MATCHES_MAX)

const excerptAt = (text: string, at: number): string => text.slice(Math.max(0, at - 20), at + 80)

/** Rules against references to the original change or its tests. */
export const leakRules: readonly ((read: ParsedInstruction, facts: LintFacts) => LintFinding[])[] = [
  findCommits,
  findUrls,
  findNumbers,
  findAuthors,
  findTestIds,
  findTestFiles,
  findTestMentions,
]
