import { createReadStream } from 'node:fs'
import { z } from 'zod'
import { WrongUse } from '../failure.ts'

const LINE_LENGTH_MAX = 64 * 1024 * 1024
/** Matches a name that is safe as a folder and in an image reference. */
const INSTANCE_ID = /^[A-Za-z0-9][\w.-]{0,199}$/
const IMAGE = /^[a-z0-9][\w.:/@-]{0,499}$/

/** A list of test names. SWE-bench stores it as JSON in a string. */
const TestNames = z.preprocess(
  (value, context) => {
    if (typeof value !== 'string') return value
    try {
      return JSON.parse(value)
    } catch {
      context.addIssue({ code: 'custom', message: 'Not a list of tests' })
      return z.NEVER
    }
  },
  z.array(z.string().min(1)),
)

const SweRow = z.looseObject({
  instance_id: z.string().regex(INSTANCE_ID, 'Not a name that can be a folder'),
  repo: z.string(),
  problem_statement: z.string().min(1),
  patch: z.string().min(1),
  test_patch: z.string().nullish(),
  FAIL_TO_PASS: TestNames,
  PASS_TO_PASS: TestNames,
  image_name: z.string().regex(IMAGE, 'Not an image').nullish(),
  docker_image: z.string().regex(IMAGE, 'Not an image').nullish(),
  install_config: z
    .looseObject({ test_cmd: z.union([z.string(), z.array(z.string())]).nullish() })
    .nullish()
    .catch(null),
})
type SweRow = z.infer<typeof SweRow>

/** A row of SWE-bench or SWE-rebench. */
export type SweInstance = {
  id: string
  repository: string
  instruction: string
  image: string
  solutionPatch: string
  testPatch: string
  testCommand: string
  testFiles: string[]
  failToPass: string[]
  passToPass: string[]
}

/** Yields the rows of a JSONL file. Fails at the first row of another shape, with its line number. */
export async function* readSweRows(file: string): AsyncGenerator<SweInstance> {
  let lineNumber = 0
  for await (const line of readLines(file)) {
    lineNumber += 1
    if (line.trim() === '') continue
    const location = `${file}:${lineNumber}`
    yield toInstance(parseRow(line, location), location)
  }
}

/** Yields the lines of a file. Throws at a line that is too long, before all of it is read. */
async function* readLines(file: string): AsyncGenerator<string> {
  let line = ''
  let lineNumber = 1
  for await (const chunk of createReadStream(file, 'utf8')) {
    const [rest = '', ...nextLines] = String(chunk).split('\n')
    line += rest
    for (const next of nextLines) {
      yield line
      lineNumber += 1
      line = next
    }
    if (line.length > LINE_LENGTH_MAX)
      throw new WrongUse(`${file}:${lineNumber} is longer than ${LINE_LENGTH_MAX} characters.`)
  }
  if (line !== '') yield line
}

function parseRow(line: string, location: string): SweRow {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    throw new WrongUse(`${location} is not JSON. The file needs one JSON object per line.`)
  }
  const { success, data, error } = SweRow.safeParse(value)
  if (success) return data
  const [issue] = error.issues
  throw new WrongUse(`${location}: ${issue?.path.join('.')}: ${issue?.message}`)
}

function toInstance(row: SweRow, location: string): SweInstance {
  // Rows of SWE-smith have no tests. Their images contain an added bug, whose reverting patch an agent could find there.
  if (!row.test_patch) throw new WrongUse(`${location} has no test_patch. Rows of SWE-smith cannot be imported.`)
  return {
    id: row.instance_id,
    repository: row.repo,
    instruction: row.problem_statement,
    image: row.image_name ?? row.docker_image ?? toImage(row.instance_id),
    solutionPatch: row.patch,
    testPatch: row.test_patch,
    testCommand: toTestCommand(row),
    testFiles: listPatchedFiles(row.test_patch),
    failToPass: row.FAIL_TO_PASS,
    passToPass: row.PASS_TO_PASS,
  }
}

/** Returns the image of an instance of SWE-bench. Image names have `_1776_` for `__`, which Docker does not allow. */
const toImage = (id: string): string =>
  `swebench/sweb.eval.x86_64.${id.toLowerCase().replaceAll('__', '_1776_')}:latest`

/** Test commands of the repositories of SWE-bench that do not use pytest. */
const TEST_COMMANDS: Record<string, string> = {
  'django/django': './tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1',
  'sphinx-doc/sphinx': 'tox --current-env -epy39 -v --',
  'sympy/sympy': 'bin/test -C --verbose',
}

function toTestCommand({ repo, install_config: config }: SweRow): string {
  const configured = config?.test_cmd
  if (configured) return typeof configured === 'string' ? configured : configured.join(' && ')
  return TEST_COMMANDS[repo] ?? 'pytest --no-header -rA --tb=no -p no:cacheprovider'
}

const listPatchedFiles = (patch: string): string[] => [
  ...new Set([...patch.matchAll(/^diff --git a\/.* b\/(.+)$/gm)].map(([, path = '']) => path)),
]
