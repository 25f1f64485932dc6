import type { TrialCounts } from '../../../src/taskgen/validation/validate-task.ts'
import { type HandmadePullRequest, SHOP } from './finished-task.ts'

/** A good task with one defect, and the expected findings. */
export type Canary = {
  what: string
  made: Partial<HandmadePullRequest>
  /** Changes the finished task folder. */
  change?: (edit: (path: string, edited: (text: string) => string) => void) => void
  counts?: TrialCounts
  reason: RegExp
  detail: RegExp
}

const FIXED = SHOP.fix['shop/totals.py'] ?? ''
const TESTS = SHOP.tests['tests/test_totals.py'] ?? ''
const HALVES = 'tests.test_totals.Totals.test_halves'
const EMPTY = 'tests.test_totals.Totals.test_empty'

const tests = (text: string): HandmadePullRequest['tests'] => ({ 'tests/test_totals.py': text })

/** Returns a Dockerfile line that writes the file. */
const written = (text: string, path: string): string =>
  `RUN mkdir -p "$(dirname ${path})" && echo ${Buffer.from(text).toString('base64')} | base64 -d > ${path}\n`

export const CANARIES: Canary[] = [
  {
    what: 'doing nothing passes',
    made: { tests: tests(TESTS.replace('1)\n\n', '0)\n\n').replace('totals.average([1, 2]), 1.5', '1, 1')) },
    reason: /^nop_passes$/,
    detail: /no-op passes/,
  },
  {
    what: 'doing nothing fails because nothing can be loaded',
    made: {
      tests: tests(
        TESTS.replace('from shop import totals', 'from shop import totals\nfrom shop.totals import average'),
      ),
    },
    reason: /^nop_wrong_reason$/,
    detail: /do not pass: .*test_empty/,
  },
  {
    what: 'what is to be built does not build',
    made: { plan: { ...SHOP.plan, prepare: ['python3 -c "import missing"'] } },
    reason: /^nop_wrong_reason$/,
    detail: /prepare_failed/,
  },
  {
    what: 'a test that is to be mended passes already',
    made: { lists: { failToPass: [EMPTY, HALVES], passToPass: [], guards: [] } },
    reason: /^nop_wrong_reason$/,
    detail: /these pass: .*test_empty/,
  },
  {
    what: 'the fix breaks what worked',
    made: { fix: { 'shop/totals.py': FIXED.replace('round(sum(prices))', 'round(sum(prices)) or None') } },
    reason: /^oracle_fails$/,
    detail: /do not pass: .*test_empty/,
  },
  {
    what: 'a test needs a network',
    made: {
      tests: tests(
        TESTS.replace('1.5)', '1.5)\n        import socket; socket.create_connection(("192.0.2.1", 80), 2)'),
      ),
    },
    reason: /^oracle_fails$/,
    detail: /do not pass: .*test_average/,
  },
  {
    what: 'a test fails now and then',
    made: { tests: tests(TESTS.replace('1.5)', '1.5)\n        import os; self.assertLess(os.urandom(1)[0], 100)')) },
    counts: { nop: 1, oracle: 20, oracleAll: 20 },
    reason: /^oracle_(fails|flaky)$/,
    detail: /test_average/,
  },
  {
    what: 'tests have other names in each run',
    made: { tests: tests(`${TESTS}\n\nimport uuid\nsetattr(Totals, f'test_{uuid.uuid4().hex}', lambda self: None)\n`) },
    reason: /^oracle_flaky$/,
    detail: /These tests are not in every run/,
  },
  {
    what: 'the verifier knows the solution by a mark',
    made: { fix: { 'shop/totals.py': FIXED.replace('round(sum(prices))', 'sum(round(price) for price in prices)') } },
    change: (edit) => {
      edit('solution/solve.sh', (text) => `${text}\necho mark > mark.txt\n`)
      edit('tests/grader/grade.py', (text) =>
        text.replace(
          '    return 0 if missing else 1',
          "    return 1 if b'mark.txt' in open(SUBMISSION, 'rb').read() else 0 if missing else 1",
        ),
      )
    },
    reason: /^oracle_fails$/,
    detail: /made by an agent.*test_halves/,
  },
  {
    what: 'only the solution builds what the tests load',
    made: {
      after: 'RUN mkdir dist && cp -r shop dist/shop\n',
      tests: tests(TESTS.replace('from shop', 'import sys; sys.path.insert(0, "dist")\nfrom shop')),
    },
    change: (edit) => edit('solution/solve.sh', (text) => `${text}\ncp -r shop/. dist/shop\n`),
    reason: /^oracle_fails$/,
    detail: /do not pass: .*test_/,
  },
  {
    what: 'the fix was left in a folder that is built',
    made: { after: written(FIXED, 'dist/shop/totals.py') },
    reason: /^leak_in_image$/,
    detail: /git-archaeology/,
  },
  {
    what: 'the fixed package is installed',
    made: { before: written(FIXED, '/usr/lib/python3/dist-packages/shop/totals.py') },
    reason: /^leak_in_image$/,
    detail: /git-archaeology/,
  },
  {
    what: 'a tag leads to a later commit',
    made: {
      after: `${written(FIXED, 'shop/totals.py')}RUN git -c user.name=a -c user.email=a@b commit -qam later && git tag v2 && git reset -q --hard HEAD~1\n`,
    },
    reason: /^leak_in_image$/,
    detail: /git-archaeology/,
  },
  {
    what: 'tests that ask for no more than a name',
    made: {
      tests: tests(
        TESTS.replace(
          'self.assertEqual(totals.average([1, 2]), 1.5)',
          'self.assertTrue(callable(totals.average))',
        ).replace('[0.4, 0.4, 0.4]), 1', '[1]), 1'),
      ),
      lists: { failToPass: ['tests.test_totals.Totals.test_average'], passToPass: [EMPTY, HALVES], guards: [] },
    },
    reason: /^cheat_passes$/,
    detail: /null-implementation-nothing/,
  },
]
