import { kindOf } from '../../grading/path-kinds.ts'

const NAMES = new Set(
  [
    'pyproject.toml setup.py setup.cfg tox.ini noxfile.py pytest.ini conftest.py manage.py .python-version pipfile',
    'package.json .npmrc .yarnrc.yml pnpm-workspace.yaml .nvmrc .node-version tsconfig.json lerna.json',
    'go.mod go.work cargo.toml rust-toolchain rust-toolchain.toml',
    'pom.xml build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradle-wrapper.properties',
    'cmakelists.txt cmakepresets.json meson.build makefile configure.ac',
    'gemfile gemfile.lock .rspec rakefile composer.json phpunit.xml phpunit.xml.dist',
  ].flatMap((line) => line.split(' ')),
)
const PATTERNS = [
  /^(?:[\w-]+-)?requirements[\w.-]*\.(?:txt|in)$/i,
  /^(?:jest|vitest|vite|babel)\.config\.[cm]?[jt]s(?:on)?$/,
  /^\.mocharc\.(?:json|jsonc|[cm]?js|ya?ml)$/,
  /\.gemspec$/,
]
/** What runs the tests elsewhere says how they are run. */
const CI = /^(?:\.github\/workflows\/[^/]+\.ya?ml|\.gitlab-ci\.yml|\.travis\.yml|\.circleci\/config\.yml)$/
const DEPTH_MAX = 5
const TEST_CODE = /\.(?:py|[cm]?[jt]sx?|rb|php)$/

/** Files that say how a repository is built and tested; and tests, which say by what they are run. */
export function isTelling(path: string): boolean {
  const parts = path.split('/')
  const name = parts.at(-1) ?? ''
  if (parts.length > DEPTH_MAX || parts.includes('node_modules')) return false
  if (NAMES.has(name.toLowerCase()) || PATTERNS.some((pattern) => pattern.test(name)) || CI.test(path)) return true
  return (parts[0] === 'requirements' && name.endsWith('.txt')) || (TEST_CODE.test(name) && kindOf(path) === 'test')
}
