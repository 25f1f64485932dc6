import { expect, test } from 'vitest'
import { unquotePath } from '../taskgen/candidates/read-diffs.ts'
import { findChore, isBotBranch, isBotName } from '../taskgen/candidates/screen-text.ts'
import { classifyPath, isTestSupport } from './path-kinds.ts'

test.each([
  // What a search for pieces of words takes for build output or tests.
  ['src/layout/grid.ts', 'source'],
  ['src/checkout/cart.js', 'source'],
  ['distributed/worker.py', 'source'],
  ['builders/x.py', 'source'],
  ['binding/form.go', 'source'],
  ['src/latest/contest.py', 'source'],
  ['src/testing/tool.py', 'source'],
  ['src/attest.go', 'source'],
  ['tests/test_app.py', 'test'],
  ['pkg/app_test.go', 'test'],
  ['src/app.test.tsx', 'test'],
  ['src/actions/gt/gt.test-d.ts', 'test'],
  ['src/__tests__/app.js', 'test'],
  ['src/test/java/org/AppTest.java', 'test'],
  ['lib/app_spec.rb', 'test'],
  ['conftest.py', 'test'],
  ['tests/data.json', 'test'],
  ['axum/src/routing/tests/merge.rs', 'test'],
  ['docs/tests/page.py', 'docs'],
  ['doc/man_docs.go', 'source'],
  ['doc/man_docs_test.go', 'test'],
  ['doc/conf.py', 'docs'],
  ['README.md', 'docs'],
  ['CHANGELOG', 'docs'],
  ['examples/app.py', 'docs'],
  ['vendor/x/y.go', 'generated'],
  ['web/dist/app.js', 'generated'],
  ['api/x.pb.go', 'generated'],
  ['app.min.js', 'generated'],
  ['package-lock.json', 'dependencies'],
  ['requirements-dev.txt', 'dependencies'],
  ['.github/workflows/ci.yml', 'ci'],
  ['settings.yaml', 'other'],
  ['', 'other'],
])('classifies %s as %s', (path, kind) => {
  expect(classifyPath(path)).toBe(kind)
})

test.each([
  ['tests/conftest.py', true],
  ['tests/helpers.py', true],
  ['tests/fixtures/app.py', true],
  ['tests/test_utils.py', false],
  ['test/types/fastify.test-d.ts', false],
])('reports whether %s is only needed by tests: %s', (path, expected) => {
  expect(isTestSupport(path)).toBe(expected)
})

test.each([
  ['chore(deps): bump x', 'prefix'],
  ['docs: say more', 'prefix'],
  ['Bump lodash from 4.17.20 to 4.17.21', 'bump'],
  ['Update dependencies', 'bump'],
  ['Revert "Fix it"', 'revert'],
  ['Release 1.2.3', 'release'],
  ['v1.2.3', 'release'],
  ['[1.x] Fix it', 'backport'],
  ['Backport the fix', 'backport'],
  ['Merge stable into main', 'merge'],
  ['Fix typo in parser', 'typo'],
  ['Update README', 'docs'],
  ['Fix the parser', undefined],
  ['feat: add docs endpoint', undefined],
  ['Release the lock when the holder dies', undefined],
  ['Update the cache when a file is removed', undefined],
  ['Merge sorted lists without copying', undefined],
  ['Testing client follows redirects', undefined],
])('recognises %j as a chore: %s', (title, expected) => {
  expect(findChore(title)).toBe(expected)
})

test('recognises bots by name or branch, and not people', () => {
  expect(['dependabot[bot]', 'renovate', 'pre-commit-ci', 'release-bot'].map(isBotName)).not.toContain(false)
  expect(['Ada', 'Abbott', 'Robot Smith', 'botond'].map(isBotName)).not.toContain(true)
  expect(isBotBranch('dependabot/npm/x')).toBe(true)
  expect(isBotBranch('fix-renovate')).toBe(false)
})

test.each([
  ['plain.py', 'plain.py'],
  ['"na\\303\\257ve \\"q\\"\\n.py"', 'naïve "q"\n.py'],
  ['"\\351.py"', '\ufffd.py'],
])('unquotes the path %s', (printed, path) => {
  expect(unquotePath(printed)).toBe(path)
})
