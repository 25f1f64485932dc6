import { expect, test } from 'vitest'
import { listFailedTests } from './verify-phase.ts'

test.each([
  ['the grader', "not passed: 'tests/test_a.py::test_one'", ['tests/test_a.py::test_one']],
  ['pytest', 'FAILED tests/test_a.py::test_one[x y] - assert 1 == 2', ['tests/test_a.py::test_one[x y]']],
  ['pytest, broken collection', 'ERROR tests/test_a.py::test_two', ['tests/test_a.py::test_two']],
  ['unittest', 'FAIL: test_one (pkg.Case.test_one)', ['test_one (pkg.Case.test_one)']],
  ['TAP', 'ok 1 - fine\nnot ok 2 - adds numbers\nnot ok 3 later # TODO', ['adds numbers']],
  ['node', '✔ fine (1ms)\n✖ adds numbers (0.42ms)\n✖ failing tests:', ['adds numbers']],
  ['vitest', ' FAIL  src/a.test.ts > adds > numbers', ['src/a.test.ts > adds > numbers']],
  ['go', '    --- FAIL: TestAdd/negative (0.00s)', ['TestAdd/negative']],
  ['cargo', 'test tests::adds ... FAILED\ntest tests::fine ... ok', ['tests::adds']],
  ['maven', '[ERROR]   AppTest.adds:20 expected: <1> but was: <2>', ['AppTest.adds']],
  ['phpunit', '1) Acme\\AppTest::testAdds', ['Acme\\AppTest::testAdds']],
  ['rspec', 'rspec ./spec/a_spec.rb:3 # adds', ['./spec/a_spec.rb:3']],
  ['ctest', '  1 - adds (Failed)', ['adds']],
  ['colours', '\u001b[31m✖ adds numbers\u001b[0m', ['adds numbers']],
  ['repetition', '--- FAIL: TestAdd\n--- FAIL: TestAdd', ['TestAdd']],
  ['prose', 'The tests FAILED because of you.\nnot passed', []],
])('finds the failed tests of %s', (_, output, names) => {
  expect(listFailedTests(output)).toEqual(names)
})

test('bounds hostile output and makes it printable', () => {
  const many = Array.from({ length: 1000 }, (_, n) => `--- FAIL: Test${n}`).join('\n')
  expect(listFailedTests(many)).toHaveLength(50)
  expect(listFailedTests(`not ok 1 - ${'x'.repeat(1500)}`)[0]).toHaveLength(200)
  expect(listFailedTests(`not ok 1 - a\u202eb`)).toEqual(['a\ufffdb'])
  expect(listFailedTests(`not ok 1 - ${'x'.repeat(100_000)}`)).toEqual([])
})
