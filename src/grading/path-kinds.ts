import { findSourceLanguage, languages, OTHER_DEPENDENCY_FILES, OTHER_TESTS } from './languages/languages.ts'

/** Class of a file in the split of a change: `source` and `test` are applied, all others form the rest. */
export type PathKind = 'source' | 'test' | 'docs' | 'generated' | 'dependencies' | 'ci' | 'other'

const VENDORED_FOLDERS = toWordSet(
  'vendor node_modules third_party thirdparty 3rdparty bower_components site-packages godeps pods .yarn',
)
const GENERATED_FOLDERS = toWordSet('__generated__ generated dist')
const TEST_FOLDERS = toWordSet(
  'test tests __tests__ spec specs e2e testdata test-data __mocks__ __snapshots__ unittests test-d cypress',
)
const DOCS_FOLDERS = toWordSet('doc docs documentation website examples example demos samples')
const CI_FOLDERS = toWordSet('.github .circleci .gitlab .buildkite .azure-pipelines .husky .vscode .idea .devcontainer')

const DEPENDENCY_FILES: ReadonlySet<string> = new Set([
  ...languages.flatMap(({ dependencyFiles }) => dependencyFiles),
  ...OTHER_DEPENDENCY_FILES,
])
const CI_FILES = toWordSet(
  '.travis.yml .gitlab-ci.yml azure-pipelines.yml jenkinsfile appveyor.yml .appveyor.yml bitbucket-pipelines.yml',
  '.pre-commit-config.yaml codecov.yml .codecov.yml renovate.json tox.ini noxfile.py',
)

const GENERATED_NAME =
  /(\.pb\.(go|cc|h)|_pb2(_grpc)?\.py|\.(gen|generated|g)\.\w+|\.min\.(js|css)|\.js\.map|_generated\.\w+)$|^zz_generated/i
const DOCS_NAME =
  /\.(md|mdx|markdown|rst|adoc|txt|po|pot)$|^(changelog|changes|license|licence|authors|contributors|readme|notice|codeowners|security)(\..*)?$/i
const REQUIREMENTS = /^requirements[\w.-]*\.(txt|in)$/i

const TEST_RULES = [...languages.map(({ tests }) => tests), OTHER_TESTS]
const TEST_NAMES = TEST_RULES.flatMap(({ names }) => names)
const SUPPORT_NAMES = TEST_RULES.flatMap(({ support }) => support)

/** Rules for test files as data for `grade.py`: folder names in lower case, patterns of file names, extensions. */
export const testPaths: { folders: string[]; names: string[]; extensions: string[] } = {
  folders: [...TEST_FOLDERS],
  names: [...TEST_NAMES, ...SUPPORT_NAMES].map(({ source }) => source),
  extensions: TEST_RULES.flatMap(({ extensions }) => extensions),
}

/** `folders` and `lowerName` are in lower case, `name` is not. */
type PathParts = { folders: readonly string[]; lowerName: string; name: string }

const isInAnyFolder = ({ folders }: PathParts, names: ReadonlySet<string>): boolean =>
  folders.some((folder) => names.has(folder))
const isInRootFolder = ({ folders }: PathParts, names: ReadonlySet<string>): boolean => names.has(folders[0] ?? '')

const isTestName = ({ name }: PathParts): boolean => TEST_NAMES.some((pattern) => pattern.test(name))
const isSupportName = ({ name }: PathParts): boolean => SUPPORT_NAMES.some((pattern) => pattern.test(name))

/** Returns true for Go files in `doc/`, because `doc` is a common package name in Go. */
const isGoPackage = ({ folders, lowerName }: PathParts): boolean => folders[0] === 'doc' && lowerName.endsWith('.go')

/** Rules for path kinds. The first match decides. Root folders of documentation never contain tests. */
const KINDS: [PathKind, (parts: PathParts) => boolean][] = [
  [
    'generated',
    (parts) =>
      isInAnyFolder(parts, VENDORED_FOLDERS) ||
      isInAnyFolder(parts, GENERATED_FOLDERS) ||
      GENERATED_NAME.test(parts.name),
  ],
  ['dependencies', ({ lowerName, name }) => DEPENDENCY_FILES.has(lowerName) || REQUIREMENTS.test(name)],
  ['ci', (parts) => isInRootFolder(parts, CI_FOLDERS) || CI_FILES.has(parts.lowerName)],
  ['docs', (parts) => isInRootFolder(parts, DOCS_FOLDERS) && !isGoPackage(parts)],
  ['test', (parts) => isInAnyFolder(parts, TEST_FOLDERS) || isTestName(parts) || isSupportName(parts)],
  ['docs', ({ name }) => DOCS_NAME.test(name)],
  ['source', ({ name }) => findSourceLanguage(name) !== undefined],
]

/** Classifies by whole path segments, never by substrings: `layout/` is not `out/`, `latest/` is not a test folder. */
export function classifyPath(path: string): PathKind {
  const parts = splitPath(path)
  return KINDS.find(([, matches]) => matches(parts))?.[0] ?? 'other'
}

const SUPPORT_FOLDERS = toWordSet('fixtures fixture testdata test-data __mocks__ __snapshots__ support helpers data')
const SUPPORT_WORD = /(^|[._-])(conftest|helpers?|utils?|fixtures?|support|mocks?|setup|common)([._-]|$)/i

/** Returns true for a file that tests need and that contains no test itself. */
export function isTestSupport(path: string): boolean {
  const parts = splitPath(path)
  return isInAnyFolder(parts, SUPPORT_FOLDERS) || (SUPPORT_WORD.test(parts.name) && !isTestName(parts))
}

function splitPath(path: string): PathParts {
  const folders = path.toLowerCase().split('/')
  const lowerName = folders.pop() ?? ''
  return { folders, lowerName, name: path.slice(path.lastIndexOf('/') + 1) }
}

function toWordSet(...lines: string[]): ReadonlySet<string> {
  return new Set(lines.flatMap((line) => line.split(' ')))
}
