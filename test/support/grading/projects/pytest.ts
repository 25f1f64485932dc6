import type { SampleProject } from '../sample-project.ts'

export const pytestSample: SampleProject = {
  runner: 'pytest',
  tree: {
    'pytest.ini':
      '[pytest]\nmarkers = slow\naddopts = --no-such-option -m "not slow" --ignore=tests/test_elsewhere.py -p no:doctest\n',
    'shapes.py': 'def area(side):\n    return side * side\n',
    'tests/test_shapes.py': `import os
import uuid
import pytest
from shapes import area

@pytest.fixture
def broken():
    raise RuntimeError('no such shape')

def test_square():
    assert area(2) == 4

def test_wrong():
    assert area(2) == 5

def test_error(broken):
    pass

@pytest.mark.skip(reason='later')
def test_later():
    pass

@pytest.mark.slow
def test_slow():
    assert False

@pytest.mark.xfail
def test_known():
    assert False

@pytest.mark.parametrize('text', ['größe', '面積', 'a b::c', '<&>"', '\\x1b[31m', ''])
def test_text(text):
    assert text is not None

@pytest.mark.parametrize('value', [uuid.uuid4()], ids=str)
def test_unstable_id(value):
    pass

class TestMore:
    def test_square(self):
        assert area(3) == 9
    def test_teardown(self, request):
        request.addfinalizer(lambda: 1 / 0)
`,
    'tests/test_unreadable.py': 'import nothing_of_this_name\n\ndef test_never():\n    pass\n',
    'tests/test_elsewhere.py': 'import nothing_of_this_name\n',
    'tests/test_other.py': 'def test_other():\n    pass\n',
  },
  statuses: {
    'tests.test_shapes::test_square': 'passed',
    'tests.test_shapes::test_wrong': 'failed',
    'tests.test_shapes::test_error': 'errored',
    'tests.test_shapes::test_later': 'skipped',
    'tests.test_shapes::test_known': 'skipped',
    'tests.test_shapes::test_text[gr\\xf6\\xdfe]': 'passed',
    'tests.test_shapes::test_text[\\u9762\\u7a4d]': 'passed',
    'tests.test_shapes::test_text[a b::c]': 'passed',
    'tests.test_shapes::test_text[<&>"]': 'passed',
    'tests.test_shapes::test_text[\\x1b[31m]': 'passed',
    'tests.test_shapes::test_text[]': 'passed',
    'tests.test_shapes::test_unstable_id[<uuid>]': 'passed',
    'tests.test_shapes.TestMore::test_square': 'passed',
    'tests.test_shapes.TestMore::test_teardown': 'errored',
    'tests.test_unreadable': 'errored',
    'tests.test_other::test_other': 'passed',
  },
  target: 'tests/test_other.py',
  targetStatuses: { 'tests.test_other::test_other': 'passed' },
  failureMessage: ['tests.test_shapes::test_wrong', 'assert 4 == 5'],
}
