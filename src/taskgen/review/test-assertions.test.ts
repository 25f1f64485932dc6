import { expect, test } from 'vitest'
import { cpuMs } from '../../../test/support/cpu-time.ts'
import { repositories } from '../../../test/support/repositories/repositories.ts'
import { listLandedTrees } from '../../../test/support/repositories/repository.ts'
import { listTestAssertions } from './test-assertions.ts'

const assertionsOf = (path: string, content: string, ...ids: string[]) =>
  listTestAssertions({ files: [{ path, content, executable: false }], deleted: [] }, ids).map(({ text }) => text)

test('finds assertions of Python tests, also over several lines and in classes', () => {
  const code = `class TestMoney:
    def test_one(
        self,
    ):
        amount = parse("1")  # assert nothing here
        assert amount == {
            "units": 1,
            "cents": [0],
        }
        self.assertEqual(amount.sign, 1)
        with pytest.raises(ValueError, match="no"):
            parse("x")

    async def test_two(self):
        mock.assert_called_once_with(1)

def test_other():
    assert False
`
  expect(assertionsOf('tests/test_money.py', code, 'tests.test_money.TestMoney::test_one[0-a]')).toEqual([
    'assert amount == { "units": 1, "cents": [0], }',
    'self.assertEqual(amount.sign, 1)',
    'with pytest.raises(ValueError, match="no"): parse("x")',
  ])
  expect(assertionsOf('tests/test_money.py', code, 'tests.test_money.TestMoney::test_two')).toEqual([
    'mock.assert_called_once_with(1)',
  ])
})

test('finds assertions of JavaScript and TypeScript tests, also of a table', () => {
  const code = `describe('money', () => {
  it('keeps its sign', async () => {
    const amount = parse('-1')
    expect(amount).toEqual({
      units: 1,
    })
    await expect(parse('x'))
      .rejects
      .toThrow('no')
    assert.strictEqual(amount.cents, 0)
  })

  test.each([
    ['a', 1],
  ])('reads %s as %i', (text, cents) => {
    expect(parse(text)).toBe(cents)
  })
  test('is short', () => expect(parse('')).toBe(0))
})
`
  const id = (title: string) => `test/money.test.ts > money > ${title}`
  expect(assertionsOf('test/money.test.ts', code, id('keeps its sign'))).toEqual([
    'expect(amount).toEqual({ units: 1, })',
    "await expect(parse('x')).rejects.toThrow('no')",
    'assert.strictEqual(amount.cents, 0)',
  ])
  expect(assertionsOf('test/money.test.ts', code, id('reads a as 1'), id('is short'))).toEqual([
    'expect(parse(text)).toBe(cents)',
    "test('is short', () => expect(parse('')).toBe(0))",
  ])
})

test('finds assertions of Go tests with their conditions', () => {
  const code = `func TestRemove(t *testing.T) {
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Remove(name); got != want {
				t.Errorf("%s: got %v", name, got)
			}
			require.NoError(t, err)
		})
	}
}

func TestRemoveMore(t *testing.T) {
	t.Fatal("no")
}
`
  const ids = ['example.org/queue::TestRemove', 'example.org/queue::TestRemove/mail']
  expect(assertionsOf('queue/remove_test.go', code, ...ids)).toEqual([
    'if got := Remove(name); got != want { t.Errorf("%s: got %v", name, got)',
    'require.NoError(t, err)',
  ])
})

test('has one entry per test where assertions are not known', () => {
  expect(assertionsOf('tests/eval.rs', '#[test]\nfn one() { assert_eq!(1, 1) }', 'eval::one', 'eval::two')).toEqual([
    '',
    '',
  ])
  expect(assertionsOf('test_a.py', 'def test_a():\n    check(1)\n', 'test_a::test_a', 'gone::test_b')).toEqual(['', ''])
})

test('represents each test if there are too many assertions', () => {
  const code = (n: number) =>
    `def test_${n}():\n${'    assert f(X) == 1\n'.repeat(30).replaceAll('X', () => String(Math.random()))}`
  const numbers = Array.from({ length: 40 }, (_, n) => n)
  const found = listTestAssertions(
    { files: [{ path: 'test_a.py', content: numbers.map(code).join('\n'), executable: false }], deleted: [] },
    numbers.map((n) => `test_a::test_${n}`),
  )
  expect(found.length).toBeLessThanOrEqual(100)
  expect(new Set(found.map((each) => each.test)).size).toBe(40)
  expect(found.map(({ number }) => number)).toEqual(found.map((_, at) => at + 1))
})

const NAMES = /\bdef (test_\w+)|\bfunc (Test(?!Main)\w+)|\btest\('([^']+)'/g

test.each(repositories.filter(({ language }) => language !== 'rust'))('knows the assertions of $name', (repository) => {
  for (const { after } of listLandedTrees(repository)) {
    const files = [...after].map(([path, content]) => ({ path, content, executable: false }))
    const ids = files.flatMap(({ path, content }) =>
      [...content.matchAll(NAMES)].map((match) => `${path}::${match.slice(1).find(Boolean)}`),
    )
    expect(listTestAssertions({ files, deleted: [] }, ids).filter(({ text }) => text === '')).toEqual([])
  }
})

test.each([
  ['a.test.ts', "it('case 1', () => {\n"],
  ['tests/test_a.py', 'def test_1():\n    assert x\n'],
])('reads a %s of %j in linear time', async (path, piece) => {
  const hidden = { files: [{ path, content: piece.repeat(1_000_000 / piece.length), executable: false }], deleted: [] }
  const failToPass = Array.from({ length: 200 }, (_, n) => `${path}::test_${n}`)
  expect(await cpuMs(() => listTestAssertions(hidden, failToPass))).toBeLessThan(3000)
})
