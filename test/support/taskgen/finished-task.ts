import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { HiddenTests, RunPlan, TestLists } from '../../../src/grading/suite.ts'
import { assembleTask } from '../../../src/taskgen/assembly/assemble-task.ts'
import { DEFAULT_RESOURCES } from '../../../src/taskgen/assembly/generated-task.ts'
import type { ExposedSymbol } from '../../../src/taskgen/lint/render-instruction.ts'

type SourceFiles = Record<string, string>

/** A handwritten pull request with the outputs of all stages before the last. */
export type HandmadePullRequest = {
  base: SourceFiles
  /** Changed source files. */
  fix: SourceFiles
  tests: SourceFiles
  lists: TestLists
  plan: RunPlan
  exposed: ExposedSymbol[]
  /** Lines of the Dockerfile after the repository is copied: before and after its commit. */
  before: string
  after: string
}

/** A change for a repository that rounds prices too early and lacks a name. */
export const SHOP: HandmadePullRequest = {
  base: {
    'shop/__init__.py': '',
    'shop/totals.py': 'def total(prices):\n    return sum(round(price) for price in prices)\n',
    'tests/__init__.py': '',
    'tests/test_totals.py':
      'import unittest\nfrom shop.totals import total\n\n\nclass Totals(unittest.TestCase):\n    def test_empty(self):\n        self.assertEqual(total([]), 0)\n',
    'README.md': 'A shop.\n',
    '.gitignore': 'dist/\n__pycache__/\n',
  },
  fix: {
    'shop/totals.py':
      'def total(prices):\n    return round(sum(prices))\n\n\ndef average(prices):\n    return sum(prices) / len(prices)\n',
  },
  tests: {
    'tests/test_totals.py':
      'import unittest\nfrom shop import totals\n\n\nclass Totals(unittest.TestCase):\n    def test_empty(self):\n        self.assertEqual(totals.total([]), 0)\n\n    def test_halves(self):\n        self.assertEqual(totals.total([0.4, 0.4, 0.4]), 1)\n\n    def test_average(self):\n        self.assertEqual(totals.average([1, 2]), 1.5)\n',
  },
  lists: {
    failToPass: ['tests.test_totals.Totals.test_average', 'tests.test_totals.Totals.test_halves'],
    passToPass: ['tests.test_totals.Totals.test_empty'],
    guards: [],
  },
  plan: { runner: 'unittest', prepare: [], targets: ['tests/test_totals.py'], timeoutSec: 120 },
  exposed: [{ kind: 'name', text: 'average', signature: 'def average(prices)' }],
  before: '',
  after: '',
}

/** Writes the finished task. Returns its folder and the patch that solves it. */
export async function finishTask(
  scratch: string,
  image: string,
  made: HandmadePullRequest,
): Promise<{ folder: string; source: string }> {
  const place = mkdtempSync(join(scratch, 'made-'))
  const environmentFolder = join(place, 'environment')
  mkdirSync(environmentFolder)
  writeTree(join(place, 'tree'), made.base)
  execFileSync('tar', [
    '-czf',
    join(environmentFolder, 'repo.tar.gz'),
    '--owner=0',
    '--group=0',
    '-C',
    join(place, 'tree'),
    '.',
  ])
  writeFileSync(join(environmentFolder, 'Dockerfile'), dockerfileOf(image, made))
  const folder = join(place, 'k3v9q1')
  const source = patchOf(join(place, 'tree'), made.fix)
  const result = await assembleTask(folder, {
    name: 'generated/k3v9q1',
    title: 'Totals are rounded once',
    difficulty: 'easy',
    markdown: INSTRUCTION,
    buildTimeoutSec: 600,
    agentTimeoutSec: 300,
    resources: { ...DEFAULT_RESOURCES, memoryMb: 1024 },
    environmentFolder,
    source,
    plan: made.plan,
    lists: made.lists,
    hidden: hiddenOf(made.tests),
  })
  if (result.kind !== 'done') throw new Error(JSON.stringify(result))
  return { folder, source }
}

const INSTRUCTION = `# Totals are rounded once

\`total\` rounds every price, so that small prices vanish: it must round their sum. Add \`average(prices)\` to the same module.
`

const dockerfileOf = (image: string, { before, after }: HandmadePullRequest): string => `FROM ${image}
WORKDIR /workspace/repo
ADD repo.tar.gz ./
${before}RUN git init --quiet --initial-branch=main && git add --all --force && git -c user.name=base -c user.email=base@localhost commit --quiet --message=base
${after}`

function writeTree(folder: string, files: SourceFiles): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
}

function patchOf(folder: string, fix: SourceFiles): string {
  const git = (...words: string[]) =>
    execFileSync('git', ['-C', folder, '-c', 'user.name=a', '-c', 'user.email=a@b', ...words], { encoding: 'latin1' })
  git('init', '--quiet')
  git('add', '--all', '--force')
  git('commit', '--quiet', '--message=base')
  writeTree(folder, fix)
  git('add', '--all', '--force')
  const patch = git('diff', '--cached', '--binary', '--full-index', '--no-renames')
  rmSync(folder, { recursive: true })
  return patch
}

const hiddenOf = (tests: SourceFiles): HiddenTests => ({
  files: Object.entries(tests).map(([path, content]) => ({ path, content, executable: false })),
  deleted: [],
})
