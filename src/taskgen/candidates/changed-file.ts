import { createHash, type Hash } from 'node:crypto'
import type { SourceLanguage } from '../../grading/languages/language.ts'
import { findSourceLanguage } from '../../grading/languages/languages.ts'
import { classifyPath, isTestSupport, type PathKind } from '../../grading/path-kinds.ts'

/** Facts about one file of a diff. Only counts and hashes of its text are kept. */
export type ChangedFile = {
  path: string
  kind: PathKind
  language: SourceLanguage | undefined
  isSubmodule: boolean
  isLink: boolean
  isAdded: boolean
  isDeleted: boolean
  /** Ids of the blobs before and after the change, without missing ones. */
  blobs: readonly string[]
  added: number
  deleted: number
  hunks: number
  isBinary: boolean
  /** The file contains tests, not only support code such as fixtures. */
  hasTests: boolean
  /** The file is source code, and the change touches a test inside it. */
  hasInlineTests: boolean
  /** Some hunk changes more than white space and comments. Moved code counts: it differs in two hunks. */
  changesCode: boolean
  /** Hashes of added and deleted code of the current hunk, ignoring white space and comments. */
  addedCode: Hash
  deletedCode: Hash
  /** Number of added assertions that run, and of those that only a type checker sees. */
  assertions: number
  typeAssertions: number
}

const SUBMODULE = '160000'
const SYMLINK = '120000'
/** Object id that git prints for a missing side of a change. */
const NULL_ID = /^0+$/

type RawChange = { oldMode: string; newMode: string; oldId: string; newId: string; path: string }

export function newChangedFile({ oldMode, newMode, oldId, newId, path }: RawChange): ChangedFile {
  const kind = classifyPath(path)
  const language = findSourceLanguage(path)
  const modes = [oldMode, newMode]
  return {
    path,
    kind,
    language,
    isSubmodule: modes.includes(SUBMODULE),
    isLink: modes.includes(SYMLINK),
    isAdded: NULL_ID.test(oldId),
    isDeleted: NULL_ID.test(newId),
    blobs: [oldId, newId].filter((id) => !NULL_ID.test(id)),
    added: 0,
    deleted: 0,
    hunks: 0,
    isBinary: false,
    hasTests: kind === 'test' && language !== undefined && !isTestSupport(path),
    hasInlineTests: false,
    changesCode: false,
    assertions: 0,
    typeAssertions: 0,
    addedCode: createHash('sha1'),
    deletedCode: createHash('sha1'),
  }
}

const TEST_CODE =
  /\b(def test|func Test|func test|fn test|function test|it|test|describe|specify|context|should|TEST|TEST_F|TEST_P|TEST_CASE|SCENARIO|BOOST_AUTO_TEST_CASE)\b\s*[('"_A-Z]|@(Test|ParameterizedTest)\b|\[(Fact|Theory|Test|TestMethod|TestCase)\b|#\[(\w+::)?test\b|#\[rstest/
const INLINE_TEST = /#\[(\w+::)?test\b|#\[cfg\(test\)\]|#\[rstest|\bmod tests?\b|^\s*test "/
const LFS = 'version https://git-lfs.github.com/spec/'
const COMMENT = /^(\/\/|#(?![![])|\*|\/\*|--|;;|%%|<!--)/

/** Updates the facts for a line of the diff, or for the code that git shows in a hunk header. */
export function noteContext(file: ChangedFile, text: string): void {
  if (file.kind === 'test' && file.language !== undefined) file.hasTests ||= TEST_CODE.test(text)
  if (file.kind === 'source' && file.language?.hasInlineTests) file.hasInlineTests ||= INLINE_TEST.test(text)
}

/** Compares the code of the hunk that has just been read. */
export function endHunk(file: ChangedFile): void {
  file.changesCode ||= file.addedCode.digest('hex') !== file.deletedCode.digest('hex')
  file.addedCode = createHash('sha1')
  file.deletedCode = createHash('sha1')
}

const TYPE_ASSERTION =
  /\b(?:expectTypeOf|assertType|expectType|expectAssignable|expectError|attest)\s*[<(]|\bassertEqual</
const IMPORT = /^(?:import|from|use|using|require)\b|\brequire\(/
const ASSERTION = /\b(?:assert\w*|expect\w*|should|must|fail|throws|rejects)\b/

/** Updates the facts for an added (`+`) or deleted (`-`) line. */
export function noteLine(file: ChangedFile, sign: string, text: string): void {
  noteContext(file, text)
  if (text.startsWith(LFS)) file.isBinary = true
  const code = text.trim()
  const isCode = code !== '' && !COMMENT.test(code)
  if (sign === '+') file.added += 1
  else file.deleted += 1
  if (isCode && sign === '+') noteAssertion(file, code)
  if (isCode) (sign === '+' ? file.addedCode : file.deletedCode).update(code.replaceAll(/\s+/g, ''))
}

function noteAssertion(file: ChangedFile, code: string): void {
  if (IMPORT.test(code)) return
  if (TYPE_ASSERTION.test(code)) file.typeAssertions += 1
  else if (ASSERTION.test(code)) file.assertions += 1
}
