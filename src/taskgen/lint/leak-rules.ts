import { type Finding, finding, type LintFacts, type Read, type Rule } from './finding.ts'
import { wordAt } from './whole-word.ts'

/** What stands behind a digit and a dot is the end of a number. */
const HEX = /(?<![0-9A-Za-z_]|\d\.)[0-9a-f]{7,40}(?![0-9A-Za-z_])/gi

/** A number is none, nor a word: an id has digits and letters. One that is known is found whatever it looks like. */
function commits({ free }: Read, facts: LintFacts): Finding[] {
  return matches(free, HEX)
    .filter(
      (id) => (/\d/.test(id) && /[a-f]/i.test(id)) || facts.commits.some((each) => each.startsWith(id.toLowerCase())),
    )
    .map((id) => finding('leak_commit', 'This looks like the id of a commit.', id))
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

function urls({ prose }: Read, { upstream }: LintFacts): Finding[] {
  const places = [...HOSTS, ...upstream]
    .map((place) => place.toLowerCase().replaceAll(/^\w+:\/\/|\/+$/g, ''))
    .filter((place) => place.length >= 4)
  const small = prose.toLowerCase()
  return [...new Set(places)]
    .filter((place) => wordAt(small, place) >= 0)
    .map((place) =>
      finding('leak_url', 'This leads to where the change can be found.', around(prose, wordAt(small, place))),
    )
}

const NUMBERS = [
  /(?<![\w&/#])#\d{1,7}\b/g,
  /\b(?:prs?|pull requests?|issues?|merge requests?|mrs?|tickets?|gh)[\s-]{0,3}(?:no\.?|numbers?|nr\.?)?\s{0,2}[#!]?\d{1,7}\b/gi,
  /(?<!\w)![1-9]\d{1,6}\b/g,
]

const numbers = ({ free }: Read): Finding[] =>
  NUMBERS.flatMap((pattern) => matches(free, pattern)).map((text) =>
    finding('leak_number', 'This looks like the number of an issue or a pull request.', text),
  )

/** Of a single small word only the mention: many logins are ordinary words. */
function authors({ free }: Read, facts: LintFacts): Finding[] {
  const small = free.toLowerCase()
  return facts.authors
    .map((name) => name.trim())
    .filter((name) => name.length >= 3)
    .filter((name) => (/^[a-z]+$/.test(name) ? wordAt(free, `@${name}`) >= 0 : wordAt(small, name.toLowerCase()) >= 0))
    .map((name) => finding('leak_author', 'This names who wrote the change.', name))
}

const ID_SPLIT = /::| > | › |#|\/| /
const ID_NAME_MIN = 5

/** The whole id, and its own name where that is a name and not a sentence. */
function testIds({ free }: Read, { failToPass, pinned }: LintFacts): Finding[] {
  const own = new Set(pinned.map(({ text }) => text))
  const ids = failToPass.flatMap((id) => {
    const name = (id.split(ID_SPLIT).at(-1) ?? '').replace(/\[.*$/s, '').split('.').at(-1) ?? ''
    const isName = name.length >= ID_NAME_MIN && /^\w+$/.test(name) && /test|_|[a-z][A-Z]/.test(name) && !own.has(name)
    return isName ? [id, name] : [id]
  })
  return found('leak_test_id', 'This is the name of a test that judges.', free, ids)
}

/** Of names alone only those that say that they are tests: data is called all sorts of things. */
function testFiles({ free }: Read, { hidden, pinned }: LintFacts): Finding[] {
  const own = new Set(pinned.map(({ text }) => text))
  const paths = [...hidden.files.map(({ path }) => path), ...hidden.deleted]
  const names = paths.map((path) => path.slice(path.lastIndexOf('/') + 1)).filter((name) => /test|spec/i.test(name))
  const all = [...paths, ...names].filter((text) => !own.has(text))
  return found('leak_test_file', 'This is a file of the tests that judge.', free, all)
}

const TESTS =
  /\b(?:the|these|those|hidden|failing|existing|provided|accompanying|our|unit|regression)\s+(?:(?:new|hidden|failing|existing|unit|updated)\s+)?tests?\b|\btest\s+(?:suites?|files?|cases?)\b/gi

const tests = ({ free }: Read): Finding[] =>
  matches(free, TESTS).map((text) =>
    finding('leak_tests', 'An instruction says what is wanted, and not how it is judged.', text),
  )

const found = (rule: Rule, detail: string, text: string, wanted: readonly string[]): Finding[] =>
  [...new Set(wanted)]
    .filter((each) => each.length >= 4 && wordAt(text, each) >= 0)
    .map((each) => finding(rule, detail, each))

const MATCHES_MAX = 20

const matches = (text: string, pattern: RegExp): string[] =>
  [...new Set([...text.matchAll(pattern)].map(([match]) => match))].slice(0, MATCHES_MAX)

const around = (text: string, at: number): string => text.slice(Math.max(0, at - 20), at + 80)

/** What leads to the change, or to what judges it. */
export const leakRules: readonly ((read: Read, facts: LintFacts) => Finding[])[] = [
  ...[commits, urls, numbers, authors],
  ...[testIds, testFiles, tests],
]
