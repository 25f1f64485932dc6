import type { SampleProject } from '../sample-project.ts'

export const unittestSample: SampleProject = {
  runner: 'unittest',
  tree: {
    'shapes.py': 'def area(side):\n    return side * side\n',
    'tests/__init__.py': '',
    'tests/test_shapes.py': `import unittest
from shapes import area

class Shapes(unittest.TestCase):
    def test_square(self):
        self.assertEqual(area(2), 4)
    def test_größe(self):
        self.assertEqual(area(3), 9)
    def test_wrong(self):
        self.assertEqual(area(2), 5)
    def test_error(self):
        raise RuntimeError('no such shape')
    @unittest.skip('later')
    def test_later(self):
        pass
    @unittest.expectedFailure
    def test_known(self):
        self.assertEqual(1, 2)
    def test_parts(self):
        for side in (1, 2):
            with self.subTest(side=side):
                self.assertEqual(area(side), 1)

class Unready(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError('not today')
    def test_never(self):
        pass
`,
    'tests/test_unreadable.py': 'import nothing_of_this_name\n',
    'tests/test_other.py':
      'import unittest\n\nclass Other(unittest.TestCase):\n    def test_other(self):\n        pass\n',
  },
  statuses: {
    'tests.test_shapes.Shapes.test_square': 'passed',
    'tests.test_shapes.Shapes.test_größe': 'passed',
    'tests.test_shapes.Shapes.test_wrong': 'failed',
    'tests.test_shapes.Shapes.test_error': 'errored',
    'tests.test_shapes.Shapes.test_later': 'skipped',
    'tests.test_shapes.Shapes.test_known': 'skipped',
    'tests.test_shapes.Shapes.test_parts': 'failed',
    'setUpClass (tests.test_shapes.Unready)': 'errored',
    'unittest.loader._FailedTest.tests.test_unreadable': 'errored',
    'tests.test_other.Other.test_other': 'passed',
  },
  target: 'tests/test_other.py',
  targetStatuses: { 'tests.test_other.Other.test_other': 'passed' },
  failureMessage: ['tests.test_shapes.Shapes.test_wrong', '4 != 5'],
}
