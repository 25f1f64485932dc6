import { expect, test } from 'vitest'
import { cheats } from '../../src/trials/cheats/cheats.ts'
import { estimateFiles } from '../support/harbor/strength.ts'
import { page } from './pages.ts'

const { text } = page('docs/verifier-strength.md')

type Files = Record<string, string>

const toTaskToml = (more = ''): string => `[environment]\ndocker_image = "a/b"\nworkdir = "/app"\n${more}`
const GRADER = toTaskToml('[metadata.assay]\ngrader = true\n')
const SEPARATE = `artifacts = ["/app/out.txt"]\n${toTaskToml('[verifier]\nenvironment_mode = "separate"\n')}`

/** Files of the tests that shell scripts call. */
const CALLED: Files = {
  'tests/check.py': 'assert open("/app/out.txt").read() == "42"\n',
  'tests/check.sh': 'cat /app/out.txt\n',
  'tests/test_it.py': 'import json\n',
  'tests/test_report.py': 'import json\n',
}
const RUN_PYTEST: Files = {
  'tests/test.sh': '#!/bin/bash\npytest /tests/test_it.py && echo 1 > /logs/verifier/reward.txt\n',
}
const PASS: Files = { 'tests/test.sh': '#!/bin/bash\ngrep -qx 42 /app/out.txt && echo 1 > /logs/verifier/reward.txt\n' }

const toScript = (line: string): string =>
  `${line.startsWith('#!') ? '' : '#!/bin/bash\n'}${line}\n[ $? -eq 0 ] && echo 1 > /logs/verifier/reward.txt\n`
const toCompose = (line: string): string => {
  const volumes = line.startsWith('volumes') ? 'volumes:\n  shared:\n' : ''
  return `services:\n  main:\n    ${line}\n  store:\n    image: a/b\n${volumes}`
}
/** The function of the page that runs a program as another user. */
const [AS_NOBODY = ''] = /^as_nobody\(\) \{\n.*\n\}\n/m.exec(text) ?? []
const toGrader = (line: string): string =>
  `#!/bin/bash\nreward=0\n${AS_NOBODY}${line} && reward=1\n[ "$reward" = 1 ] && echo 1 > /logs/verifier/reward.txt\n`
const READ = 'import json\ndata = json.load(open("/app/out.json"))\n'
const WANT = 'want = json.load(open("/tests/want.json"))\n'

/** Builds a task from an example, by the heading of the column with the refused examples. */
const EXAMPLES: Record<string, (example: string) => Files> = {
  'refused in `docker-compose.yaml`': (line) => ({ ...PASS, 'environment/docker-compose.yaml': toCompose(line) }),
  'refused in the `Dockerfile`': (line) => ({
    ...PASS,
    'task.toml': '[environment]\n',
    'environment/Dockerfile': `FROM debian\nWORKDIR /app\n${line}\n`,
  }),
  'refused as a hook of `main`': (line) => ({
    ...PASS,
    'task.toml': `${SEPARATE}[[verifier.collect]]\ncommand = '''${line}'''\n`,
    'tests/Dockerfile': 'FROM debian\nCOPY . /tests\n',
  }),
  'refused in `test.sh`': (line) => ({ ...CALLED, 'tests/test.sh': toScript(line) }),
  'refused in `test_it.py`': (code) => ({
    ...RUN_PYTEST,
    'tests/test_it.py': `${READ}${/\bwant\b/.test(code) ? WANT : ''}${code}\n`,
  }),
  'refused in `test.js`': (code) => ({
    'tests/test.sh': toScript('node /tests/test.js'),
    'tests/test.js': `${code}\n`,
  }),
  "refused in a grader's `test.sh`": (line) => ({ 'task.toml': GRADER, 'tests/test.sh': toGrader(line) }),
}

type Row = { rule: string; refused: string; accepted: string; build: (example: string) => Files }

/** Lists the rows of the tables of rules. A row without code in both columns only describes its rule. */
function listRows(): Row[] {
  const tables = [...text.matchAll(/^\| rule \| (.*?) \| accepted \|\n\|[-|]+\|\n((?:\|.*\n)+)/gm)]
  return tables.flatMap(([, heading = '', lines = '']) => {
    const build = EXAMPLES[heading]
    if (!build) throw new Error(`No examples are known for the heading ${heading}.`)
    return lines
      .trim()
      .split('\n')
      .map((line) => {
        const [, rule = '', refused = '', accepted = ''] = line.split(/(?<!\\)\|/).map((cell) => cell.trim())
        return { rule, refused, accepted, build }
      })
  })
}

/** Lists the examples in a cell. "then" joins the lines of one. */
const listExamples = (cell: string): string[] =>
  [...cell.matchAll(/`[^`]+`(?: then `[^`]+`)*/g)].map(([code]) =>
    code.replaceAll('` then `', '\n').replaceAll('`', '').replaceAll('\\|', '|'),
  )

/** A rule whose second column describes what is refused and has no example that could be tried. */
const DESCRIBED = ['**makes pytest load code**', '**is too long to be followed**']
const rows = listRows().filter(({ rule }) => !DESCRIBED.includes(rule))

const refused = rows.flatMap(({ rule, refused, build }) =>
  listExamples(refused).map((example) => ({ rule, example, files: build(example) })),
)
const accepted = rows.flatMap(({ accepted, build }) =>
  listExamples(accepted).map((example) => ({ example, files: build(example) })),
)

async function estimate(files: Files) {
  const found = await estimateFiles({ 'task.toml': toTaskToml(), ...files })
  if (!found) throw new Error('The task is invalid.')
  return found
}

test.each(refused)('is weak: $example', async ({ rule, files }) => {
  const words = [...rule.matchAll(/\*\*(.+?)\*\*/g)].map(([, words = '']) => words)
  const { strength, reason } = await estimate(files)
  expect(strength).toBe('weak')
  expect(words.filter((part) => reason.includes(part))).not.toEqual([])
})

test.each(accepted)('is accepted: $example', async ({ files }) => {
  const { strength, reason } = await estimate(files)
  expect(strength, reason).not.toBe('weak')
})

const blocks = [
  ...text.matchAll(/^```(bash|python) (weak|standard|strong)(?: (grader|separate))?\n([\s\S]*?)^```$/gm),
].map(([, language = '', strength = '', kind = '', code = '']) => ({ language, strength, kind, code }))

const TOML: Record<string, string> = { grader: GRADER, separate: SEPARATE }

test.each(blocks)('$strength is the strength of $kind tests in $language:\n$code', async (block) => {
  const { language, strength, kind, code } = block
  const files = language === 'bash' ? { 'tests/test.sh': code } : { ...RUN_PYTEST, 'tests/test_it.py': code }
  const task = {
    ...(kind === '' && language === 'bash' ? CALLED : {}),
    ...files,
    'task.toml': TOML[kind] ?? toTaskToml(),
  }
  expect(await estimateFiles(task)).toMatchObject({ strength })
})

test('the page shows examples of every kind, and no other blocks of tests', () => {
  expect(blocks.length).toBe([...text.matchAll(/^```(?:bash|python)/gm)].length)
  expect(new Set(blocks.map(({ kind }) => kind))).toEqual(new Set(['', 'grader', 'separate']))
  expect(new Set(rows.map(({ build }) => build)).size).toBe(Object.keys(EXAMPLES).length)
})

test('the page lists exactly the known cheats', () => {
  const [, section = ''] = /^## Cheats of calibration\n([\s\S]*?)^## /m.exec(text) ?? []
  const listed = [...section.matchAll(/^\| `([\w-]+)` \|/gm)].map(([, id = '']) => id)
  expect(listed.sort()).toEqual(cheats.map(({ id }) => id).sort())
})
