import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pythonRootfs } from '../../test/support/grading/images.ts'
import { HIDDEN, LISTS, SHAPES, UNSOLVED } from '../../test/support/grading/shapes-project.ts'
import {
  openSuiteRunner,
  type SuiteRepository,
  type SuiteRunner,
  statusesOf,
} from '../../test/support/grading/suite-runner.ts'
import type { SuiteOutcome } from './suite.ts'

let fixture: SuiteRunner
let repository: SuiteRepository
beforeAll(async () => {
  fixture = await openSuiteRunner('bwrap', await pythonRootfs())
  repository = await fixture.repository(SHAPES, { runner: 'pytest' })
}, 1_800_000)
afterAll(async () => fixture?.[Symbol.asyncDispose](), 300_000)

/** Code that the tests load, in the place of what they test. It is wrong, and does something else besides. */
const judge = (code: string, runner = 'pytest'): Promise<{ outcome: SuiteOutcome; reward: string | undefined }> =>
  repository.judge(LISTS, {
    runner,
    submission: repository.patch({ 'shapes.py': `${code}\ndef area(side):\n    return side + side\n` }),
    hidden: HIDDEN,
  })

const quietly = (code: string): string =>
  `try:\n    ${code.trim().replaceAll('\n', '\n    ')}\nexcept OSError:\n    pass\n`

/** Whoever shares a process with the runner can find out where its report goes. */
const FIND = `import os, sys
words = open('/proc/self/cmdline').read().split('\\0')
report = [word.split('=', 1)[1] for word in words if word.startswith('--junitxml=')][0]
`

const ALL_PASSED = `<testsuite tests="2" failures="0" errors="0"><testcase classname="tests.test_shapes" name="test_two"/><testcase classname="tests.test_shapes" name="test_three"/></testsuite>`
const SPIN = `if os.fork() == 0:
    os.setsid()
    while True:
        try:
            if os.fork() > 0: os._exit(0)
        except OSError:
            pass
        for path in ('/logs/verifier/reward.txt', '/logs/verifier/reward.json', '/logs/reward.txt'):
            try:
                open(path, 'w').write('1')
            except OSError:
                pass
`

/** It may do as it likes: nothing comes of it. */
const USELESS: Record<string, string> = {
  'prints that all passed': `import sys\nfor out in (sys.__stdout__, sys.__stderr__):\n    out.write('PASSED tests/test_shapes.py::test_three\\n2 passed in 0.01s\\n${ALL_PASSED}\\n')\n    out.flush()\n`,
  'writes reports where they might be looked for': `import os, glob
for path in ['report', 'report.xml', 'junit.xml', '/tmp/report', '/tmp/report.xml', '/var/tmp/report.xml', *(d + '/report' for d in glob.glob('/tmp/*'))]:
    ${quietly(`open(path, 'w').write('''${ALL_PASSED}''')`).replaceAll('\n', '\n    ')}`,
  'writes the reward': `import os
${quietly(`os.makedirs('/logs/verifier', exist_ok=True)
open('/logs/verifier/reward.txt', 'w').write('1')`)}${quietly(`os.rename('/logs/verifier', '/logs/old')`)}${quietly(`open('/tests/f2p.json', 'w').write('[]')`)}`,
  'leaves processes behind that never stay the same': `import os\nfor _ in range(5):\n    ${SPIN.trim().replaceAll('\n', '\n    ')}\n`,
  'writes over the tests that are to be run': `import os
for path in ('tests/test_shapes.py', 'tests/helpers.py', 'pytest.ini'):
    ${quietly(`open(path, 'r+').write('#' * 10)`).replaceAll('\n', '\n    ')}
${quietly(`os.unlink('tests/test_shapes.py')`)}${quietly(`os.rename('tests', 'old')`)}${quietly(`os.chmod('tests', 0o777)`)}`,
  'would become root': `import os\n${quietly(`os.setuid(0)\nos.unlink('/tests/f2p.json')`)}`,
}

describe('tested code gains nothing when it', () => {
  for (const [what, code] of Object.entries(USELESS)) {
    test(what, { timeout: 120_000 }, async () => {
      const { outcome, reward } = await judge(code)
      expect(statusesOf(outcome)).toEqual(UNSOLVED)
      expect(reward).toBe('0\n')
    })
  }

  test('looks for the list of required tests', { timeout: 120_000 }, async () => {
    const looking = `import os
seen = []
for path in ('/tests', '/tests/f2p.json', '/tests/hidden/tests/test_shapes.py', '/logs/verifier', '/logs/verifier/report.json',
             '/logs/artifacts', '/logs/artifacts/submission.patch'):
    try:
        seen.append(os.listdir(path) if os.path.isdir(path) else open(path).read())
    except PermissionError:
        pass
if seen or os.getuid() == 0:
    raise RuntimeError(str(seen))
`
    const { outcome } = await judge(looking)
    expect(statusesOf(outcome)).toEqual(UNSOLVED)
  })
})

const ending = (content: string, code: number): string =>
  `${FIND}open(report, 'wb').write(${content})\nos._exit(${code})\n`
const BOMB = `<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "${'&a;'.repeat(10)}"><!ENTITY c "${'&b;'.repeat(10)}">]><testsuite><testcase name="&c;"/></testsuite>`

/** What cannot be counted, or says one thing while the runner ends with another, is worth nothing. */
const BROKEN: Record<string, string> = {
  'ends with 0 as soon as it is loaded': 'import os\nos._exit(0)\n',
  'ends its runner': 'import os\nos.kill(os.getpid(), 9)\n',
  'ends everything it may': 'import os\nos.kill(-1, 9)\n',
  'says that all passed, and ends with 1': ending(`b'''${ALL_PASSED}'''`, 1),
  'says that one failed, and ends with 0': ending(
    `b'''<testsuite tests="1" failures="1" errors="0"><testcase name="a"><failure/></testcase></testsuite>'''`,
    0,
  ),
  'counts other tests than it names': ending(`b'''${ALL_PASSED.replace('tests="2"', 'tests="3"')}'''`, 0),
  'hides a failure from its own counts': ending(
    `b'''${ALL_PASSED.replace('"test_three"/>', '"test_three"><failure/></testcase>')}'''`,
    1,
  ),
  'leaves a report without tests': ending(`b'<testsuite tests="0" failures="0" errors="0"/>'`, 0),
  'leaves an empty report': ending(`b''`, 0),
  'leaves a report that is no XML': ending(`b'[1, 2'`, 0),
  'leaves zero bytes': ending(`b'''${ALL_PASSED}''' + bytes(100)`, 0),
  'leaves a bomb of entities': ending(`b'''${BOMB}'''`, 0),
  'leaves a bomb in another encoding': ending(
    `'''${BOMB.replace('1.0"', '1.0" encoding="utf-16"')}'''.encode('utf-16')`,
    0,
  ),
  'leaves a report without bottom': ending(`b'<testsuite>' * 1000000`, 0),
  'leaves a report without end': `${FIND}open(report, 'wb').truncate(1 << 40)\nos._exit(0)\n`,
  'leaves a large report': `${FIND}out = open(report, 'wb')\nfor _ in range(65): out.write(b' ' * (1 << 20))\nos._exit(0)\n`,
  'leaves a link': `${FIND}os.symlink('/tests/f2p.json', report)\nos._exit(0)\n`,
  'leaves a pipe': `${FIND}os.mkfifo(report)\nos._exit(0)\n`,
  'leaves a folder': `${FIND}os.mkdir(report)\nos._exit(0)\n`,
  'leaves a second report': `${FIND}open(report + '2', 'w').write('''${ALL_PASSED}''')\n`,
  'leaves a report with a second name': `${FIND}open('mine', 'w').write('''${ALL_PASSED}''')\nos.link('mine', report)\nos._exit(0)\n`,
  'takes the folder of the report away': `${FIND}import shutil\nshutil.rmtree(os.path.dirname(report), ignore_errors=True)\nos._exit(0)\n`,
}

describe('tested code gets 0 when it', () => {
  for (const [what, code] of Object.entries(BROKEN)) {
    test(what, { timeout: 120_000 }, async () => {
      const { outcome, reward } = await judge(code)
      expect(outcome).toMatchObject({ kind: 'broken', reason: 'no_report' })
      expect(reward).toBe('0\n')
    })
  }

  const LINES: Record<string, string> = {
    'no JSON': `b'{"id": 1'`,
    'texts that are numbers': `b'{"id": 1, "status": "passed"}\\n{"end": 1}\\n'`,
    'a status that is none': `b'{"id": "a", "status": "great"}\\n{"end": 1}\\n'`,
    'no end': `b'{"id": "a", "status": "passed"}\\n'`,
    'numbers that are none': `b'{"id": "a", "status": "passed", "x": NaN}\\n{"end": 1}\\n'`,
    'lists without bottom': `b'[' * 1000000`,
    'bytes that are no text': `b'\\xff\\xfe\\n{"end": 1}\\n'`,
    'an array': `b'[]\\n'`,
  }
  for (const [what, content] of Object.entries(LINES)) {
    test(`leaves lines with ${what}`, { timeout: 120_000 }, async () => {
      const find = `import os\nreport = open('/proc/self/cmdline').read().split('\\0')[2]\n`
      const { outcome, reward } = await judge(`${find}open(report, 'wb').write(${content})\nos._exit(0)\n`, 'unittest')
      expect(outcome).toMatchObject({ kind: 'broken', reason: 'no_report' })
      expect(reward).toBe('0\n')
    })
  }
})
