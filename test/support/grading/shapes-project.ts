import type { HiddenTests, TestLists } from '../../../src/grading/suite.ts'

/** A repository with a bug that its own tests do not detect. */
export const SHAPES: Record<string, string> = {
  '.gitignore': 'build/\n',
  'shapes.py': 'def area(side):\n    return side + side\n',
  Makefile: 'test:\n\tpython3 -m pytest\n',
  'tests/helpers.py': 'def same(a, b):\n    assert a == b\n',
  'tests/test_shapes.py': 'from shapes import area\n\ndef test_two():\n    assert area(2) == 4\n',
}

export const RIGHT = 'def area(side):\n    return side * side\n'

/** Hidden tests that detect it. */
export const HIDDEN_TEST = `from shapes import area
from helpers import same

def test_two():
    same(area(2), 4)

def test_three():
    same(area(3), 9)
`

export const hiddenTests = (files: Record<string, string>, deleted: string[] = []): HiddenTests => ({
  files: Object.entries(files).map(([path, content]) => ({ path, content, executable: false })),
  deleted,
})

export const HIDDEN: HiddenTests = hiddenTests({ 'tests/test_shapes.py': HIDDEN_TEST })

export const TWO = 'tests.test_shapes::test_two'
export const THREE = 'tests.test_shapes::test_three'
export const LISTS: TestLists = { failToPass: [THREE], passToPass: [TWO], guards: [] }
export const UNSOLVED: Record<string, string> = { [TWO]: 'passed', [THREE]: 'failed' }
export const SOLVED: Record<string, string> = { [TWO]: 'passed', [THREE]: 'passed' }
