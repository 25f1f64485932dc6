import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { longRootfs, shortRootfs } from '../../../test/support/grading/images.ts'
import { mavenSample } from '../../../test/support/grading/projects/maven.ts'
import { hiddenTests } from '../../../test/support/grading/shapes-project.ts'
import { openSuiteRunner, type SuiteRunner } from '../../../test/support/grading/suite-runner.ts'
import { hasPart, isLongRun } from '../../../test/support/parts.ts'
import { doneOf } from '../../../test/support/taskgen/prepared-pull-request.ts'
import { execute } from './execute.ts'

const MINUTES = 60_000

/** A pull request of a reduced repository, and the lists that its runs must give. */
type ReducedPullRequest = {
  runner: string
  base: Record<string, string>
  tests: Record<string, string>
  source: Record<string, string>
  failToPass: string[]
  guards: string[]
  passToPass: string[]
  /** Part of a message of the compiler that the author must see. Null if the tests compile without the fix. */
  buildError: string | null
}

const goTests = (names: string[], more = ''): string =>
  `package kit\n\nimport "testing"\n\n${names.map((name) => `func ${name}(t *testing.T) { if One() != 1 { t.Fatal("no") } }\n`).join('\n')}${more}`

/** In Go, one unknown name takes all tests of its package away. */
const GO: ReducedPullRequest = {
  runner: 'go',
  base: {
    'go.mod': 'module example.org/kit\n\ngo 1.21\n',
    'kit.go': 'package kit\n\nfunc One() int { return 1 }\n',
    'kit_test.go': goTests(['TestOne', 'TestUno']),
    'other/other_test.go': 'package other\n\nimport "testing"\n\nfunc TestOther(t *testing.T) {}\n',
  },
  tests: {
    'kit_test.go': goTests(['TestOne', 'TestUno'], 'func TestTwo(t *testing.T) { if Two() != 2 { t.Fatal("no") } }\n'),
  },
  source: { 'kit.go': 'package kit\n\nfunc One() int { return 1 }\n\nfunc Two() int { return 2 }\n' },
  failToPass: ['example.org/kit::TestTwo'],
  guards: ['example.org/kit::TestOne', 'example.org/kit::TestUno'],
  passToPass: ['example.org/kit/other::TestOther'],
  buildError: 'undefined: Two',
}

const CONTEXT = `STACK = []


def push():
    STACK.append(1)


def depth():
    return len(STACK)
`
const contextTests = (names: string[], assertion: string): string =>
  `import context\n\n${names.map((name) => `\ndef ${name}():\n    assert ${assertion}\n`).join('\n')}`

/** In Python all files share a process: a new test that fails leaves something behind, and later tests fail with it. */
const PYTHON: ReducedPullRequest = {
  runner: 'pytest',
  base: {
    'context.py': CONTEXT,
    'tests/test_a.py': contextTests(['test_first', 'test_changed'], 'context.depth() == 0'),
    // The report shortens the port of this id, because ports differ from run to run.
    'tests/test_c.py': contextTests(['test_later', 'test_latest'], 'context.depth() == 0').concat(
      "\n\nimport pytest\n\n\n@pytest.mark.parametrize('host', ['localhost:8080'])\ndef test_host(host):\n    assert context.depth() == 0\n",
    ),
  },
  tests: {
    'tests/test_a.py': contextTests(['test_first'], 'context.depth() == 0').concat(
      contextTests(['test_changed'], 'context.depth() == 0 and context.NAME').replace('import context\n', ''),
    ),
    'tests/test_b.py':
      'import context\n\n\ndef test_pop():\n    context.push()\n    context.pop()\n    assert context.depth() == 0\n',
  },
  source: { 'context.py': `${CONTEXT}\n\ndef pop():\n    STACK.pop()\n\n\nNAME = 'context'\n` },
  failToPass: ['tests.test_a::test_changed', 'tests.test_b::test_pop'],
  guards: ['tests.test_c::test_host[localhost:<port>]', 'tests.test_c::test_later', 'tests.test_c::test_latest'],
  passToPass: ['tests.test_a::test_first'],
  buildError: null,
}

/** In Cargo, one unknown name takes the tests of its file away. */
const RUST: ReducedPullRequest = {
  runner: 'cargo',
  base: {
    'Cargo.toml': '[package]\nname = "kit"\nversion = "0.1.0"\nedition = "2021"\n',
    '.gitignore': 'target\n',
    'src/lib.rs': 'pub fn one() -> i32 { 1 }\n',
    'tests/kit.rs': '#[test]\nfn one() { assert_eq!(kit::one(), 1); }\n',
    'tests/other.rs': '#[test]\nfn other() {}\n',
  },
  tests: {
    'tests/kit.rs':
      '#[test]\nfn one() { assert_eq!(kit::one(), 1); }\n#[test]\nfn two() { assert_eq!(kit::two(), 2); }\n',
  },
  source: { 'src/lib.rs': 'pub fn one() -> i32 { 1 }\npub fn two() -> i32 { 2 }\n' },
  failToPass: ['kit tests/kit.rs::two'],
  guards: ['kit tests/kit.rs::one'],
  passToPass: ['other tests/other.rs::other'],
  buildError: 'cannot find function `two`',
}

const javaTest = (name: string, methods: string): string =>
  `package org.example;\nimport static org.junit.jupiter.api.Assertions.*;\nimport org.junit.jupiter.api.*;\nclass ${name} { ${methods} }\n`
const JAVA = 'src/test/java/org/example'

/** In Maven, one unknown name takes all tests of its module away: nothing runs without the fix. */
const MAVEN: ReducedPullRequest = {
  runner: 'maven',
  base: {
    'pom.xml': mavenSample.tree['pom.xml'] ?? '',
    'src/main/java/org/example/Kit.java':
      'package org.example;\npublic class Kit { public static int one() { return 1; } }\n',
    [`${JAVA}/KitTest.java`]: javaTest('KitTest', '@Test void one() { assertEquals(1, Kit.one()); }'),
    [`${JAVA}/OtherTest.java`]: javaTest('OtherTest', '@Test void other() {}'),
  },
  tests: {
    [`${JAVA}/KitTest.java`]: javaTest(
      'KitTest',
      '@Test void one() { assertEquals(1, Kit.one()); } @Test void two() { assertEquals(2, Kit.two()); }',
    ),
  },
  source: {
    'src/main/java/org/example/Kit.java':
      'package org.example;\npublic class Kit { public static int one() { return 1; } public static int two() { return 2; } }\n',
  },
  failToPass: ['org.example.KitTest::two'],
  guards: ['org.example.KitTest::one', 'org.example.OtherTest::other'],
  passToPass: [],
  buildError: 'cannot find symbol',
}

inSandbox(shortRootfs, [GO, PYTHON])
if (isLongRun()) inSandbox(longRootfs, [RUST, MAVEN])

function inSandbox(rootfs: () => Promise<string>, cases: ReducedPullRequest[]): void {
  describe.skipIf(!hasPart('bwrap'))('in a sandbox', () => {
    let fixture: SuiteRunner
    beforeAll(async () => {
      fixture = await openSuiteRunner('bwrap', await rootfs())
    }, 30 * MINUTES)
    afterAll(async () => fixture?.[Symbol.asyncDispose](), 5 * MINUTES)

    test.each(cases)(
      '$runner: tests that only lost their build or their order are guards',
      {
        timeout: 10 * MINUTES,
      },
      async (reduced) => {
        const { image, patch } = await fixture.repository(reduced.base, { runner: reduced.runner })
        const plan = { runner: reduced.runner, prepare: [], targets: [], timeoutSec: 300 }
        const input = { image, plan, folder: fixture.folder, hidden: hiddenTests(reduced.tests) }
        const signal = new AbortController().signal
        const executed = doneOf(await execute(fixture.provider, { ...input, source: patch(reduced.source) }, signal))
        const { failToPass, guards, passToPass, buildError } = reduced
        expect(executed.lists).toEqual({ failToPass, guards, passToPass })
        expect(executed.buildErrors.join('\n')).toContain(buildError ?? '')
        expect(executed.buildErrors.length > 0).toBe(buildError !== null)
        expect(executed.runs.filter(({ variant }) => variant === 'base')).toHaveLength(3)
      },
    )
  })
}
