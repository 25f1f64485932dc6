import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  blankedFiles,
  changedInputs,
  commentedSolution,
  copiedInputs,
  emptyFolders,
  firstEntry,
  oneEntry,
  oneFile,
  oneKey,
  removedFiles,
} from './altered-solutions.ts'
import type { Cheat } from './cheat.ts'
import { cheats } from './cheats.ts'
import { codeTakeOver, dataTakeOver, TAKE_OVER } from './take-over-code.ts'
import { configTakeOver } from './take-over-settings.ts'
import {
  bareAnswers,
  constantAnswers,
  crowdedAnswers,
  emptyAnswers,
  everythingAnswers,
  everythingLists,
  hollowAnswers,
  infiniteAnswers,
  largeAnswers,
  notANumber,
  numberlessAnswers,
  rewardAnswers,
  sameFormAnswers,
  unknownKeys,
} from './wrong-answers.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'assay-cheats-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** These cheats only write to the current directory. */
function run(script: string, instruction: string, variables: Record<string, string> = {}): number | null {
  const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: folder, ...variables }
  return spawnSync('sh', ['-c', script], { cwd: folder, env, input: instruction }).status
}

const takesOver = (path: string): boolean => readFileSync(join(folder, path), 'utf8').includes(TAKE_OVER)

test('every cheat is a shell script without syntax errors', () => {
  for (const { id, script } of cheats) {
    const { status, stderr } = spawnSync('sh', ['-n'], { input: script, encoding: 'utf8' })
    expect({ id, status, stderr }).toEqual({ id, status: 0, stderr: '' })
  }
})

test('code-take-over reaches sources, programs without an extension, packages, and files that the instruction names', () => {
  const files = ['a b.py', 'lib/x.rb', 'node_modules/y/index.js', '.venv/bin/tool', 'run', 'X.java', 'main.go', 'z.c']
  for (const path of files) {
    mkdirSync(join(folder, path, '..'), { recursive: true })
    const isProgram = !path.includes('.') || path.startsWith('.venv')
    writeFileSync(join(folder, path), path.endsWith('.java') ? 'class X {\n}\n' : 'package main\n', {
      mode: isProgram ? 0o755 : 0o644,
    })
  }
  expect(run(codeTakeOver.script, `Write \`greet\`, ${folder}/out/tool and new.lua.`)).toBe(0)
  for (const path of [...files, 'greet', 'out/tool', 'new.lua'])
    expect({ path, is: takesOver(path) }).toEqual({ path, is: true })
})

test('config-take-over writes settings and build files of every ecosystem, even if none existed', () => {
  writeFileSync(join(folder, 'package.json'), '{\n  "scripts": {"test": "jest"}\n}\n')
  expect(run(configTakeOver.script, '')).toBe(0)
  const paths = [
    ...[
      'Makefile',
      'GNUmakefile',
      'CMakeLists.txt',
      'Rakefile',
      'Gemfile',
      'conftest.py',
      'setup.py',
      'sitecustomize.py',
    ],
    ...[
      'json.py',
      'jest.config.js',
      'vitest.config.js',
      'babel.config.js',
      '.envrc',
      '.bashrc',
      '.profile',
      'configure',
    ],
    ...['build.gradle', 'justfile', 'bin/pytest', 'node_modules/.bin/jest', '.venv/bin/python', '.take-over'],
  ]
  for (const path of paths) expect({ path, is: takesOver(path) }).toEqual({ path, is: true })
  for (const path of ['.npmrc', '.cargo/config.toml', '.rspec', '.proverc', 'phpunit.xml', 'bunfig.toml'])
    expect(readFileSync(join(folder, path), 'utf8')).toContain(join(folder, '.take-over'))
  const { scripts } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  expect(scripts.test).toBe(TAKE_OVER)
})

test('data-take-over writes pickles and YAML, and applies only if there are such files', () => {
  expect(run(dataTakeOver.script, 'Write a.txt.')).toBe(77)
  expect(run(dataTakeOver.script, 'Write model.pkl and settings.yaml.')).toBe(0)
  expect([takesOver('model.pkl'), takesOver('settings.yaml')]).toEqual([true, true])
})

test('answers that careless comparisons accept have the names and keys of the instruction', () => {
  const instruction = 'Write the "mean" and `count` to out/result.json, and answer.txt.'
  const read = () => ['out/result.json', 'answer.txt'].map((path) => readFileSync(join(folder, path), 'utf8'))
  expect(run(emptyAnswers.script, instruction)).toBe(0)
  expect(read()).toEqual(['{}\n', ''])
  expect(run(notANumber.script, instruction)).toBe(0)
  expect(read()).toEqual(['{"count": NaN, "mean": NaN, "value": NaN}\n', 'nan\n'])
  expect(run(notANumber.script, 'Make it faster.')).toBe(77)
  expect(run(rewardAnswers.script, instruction)).toBe(0)
  expect(read()).toEqual(['{"reward": 1}\n', 'reward: 1\n'])
})

test('answers with everything have the words of the task and numbers, but nothing of the solution', () => {
  writeFileSync(join(folder, 'users.log'), 'ada logged in from 10.0.0.9\nbob said "no"\n')
  const instruction = 'Write the "count" to out/result.json and the user to answer.txt.'
  expect(run(everythingAnswers.script, instruction)).toBe(0)
  const lines = readFileSync(join(folder, 'answer.txt'), 'utf8').split('\n')
  expect(lines).toEqual(expect.arrayContaining(['ada', '10.0.0.9', 'bob said no', '1234', '0.25', 'yes', 'count: 42']))
  expect(JSON.parse(readFileSync(join(folder, 'out/result.json'), 'utf8')).count).toMatch(/ ada .* 1234 /)
  for (const path of ['answer.txt', 'out/result.json']) rmSync(join(folder, path))
  expect(run(everythingLists.script, instruction)).toBe(0)
  expect(JSON.parse(readFileSync(join(folder, 'out/result.json'), 'utf8')).count).toEqual(
    expect.arrayContaining(['ada', '1234', 1234]),
  )
  expect(run(everythingLists.script, 'Write answer.txt.')).toBe(77)
})

describe('cheats that run the reference solution', () => {
  const read = (path: string) => readFileSync(join(folder, path), 'utf8').trim()
  let scripts: string
  beforeEach(() => {
    scripts = mkdtempSync(join(tmpdir(), 'assay-solution-'))
  })
  afterEach(() => rmSync(scripts, { recursive: true, force: true }))

  function solveWith(
    cheat: Cheat,
    solutionScript: string,
    solved: readonly string[],
    carried: readonly string[] = [],
  ): number | null {
    const solution = join(scripts, 'solve.sh')
    writeFileSync(solution, `#!/bin/sh\n${solutionScript}\n`, { mode: 0o755 })
    return run(cheat.script, '', { solution, solved: solved.join('\n'), carried: carried.join('\n') })
  }
  const JSON_ANSWER = `echo '{"mean": 3.5, "name": "a b", "rows": [{"x": [1, 2]}, {"x": []}]}' > out.json`

  test('keep the form of answers and remove their content', () => {
    const script = `${JSON_ANSWER}; printf 'a,b\\n1,x\\n' > out.csv; echo 42 > out.txt`
    const solved = ['out.csv', 'out.json', 'out.txt']
    expect(solveWith(hollowAnswers, script, solved)).toBe(0)
    expect(JSON.parse(read('out.json'))).toEqual({ mean: 0, name: '', rows: [] })
    expect([read('out.csv'), read('out.txt')]).toEqual(['a,b', ''])
    expect(solveWith(numberlessAnswers, script, solved)).toBe(0)
    expect(read('out.json')).toBe('{"mean": NaN, "name": "", "rows": [{"x": [NaN, NaN]}, {"x": []}]}')
    expect([read('out.csv'), read('out.txt')]).toEqual(['a,b\nnan,nan', 'nan'])
  })

  test('put constants in the place of all values', () => {
    const script = `${JSON_ANSWER}; printf 'a,b\\n17,red\\n' > out.csv; printf 'total: 17\\nred\\n' > out.txt`
    expect(solveWith(constantAnswers, script, ['out.csv', 'out.json', 'out.txt'])).toBe(0)
    expect(JSON.parse(read('out.json'))).toEqual({ mean: 1, name: 'x', rows: [{ x: [1, 1] }, { x: [] }] })
    expect([read('out.csv'), read('out.txt')]).toEqual(['a,b\n1,x', 'total: 1\nx'])
    expect(solveWith(constantAnswers, `echo '{"a": [true, false]}' > out.json`, ['out.json'])).toBe(0)
    expect(JSON.parse(read('out.json'))).toEqual({ a: [true, true] })
  })

  test.each([
    ['lines', 'out.txt', 'printf "a\\nb\\nc\\n"', 'b'],
    ['rows', 'out.csv', 'printf "n\\n1\\n2\\n3\\n"', 'n\n2'],
    ['a list', 'out.json', `echo '[{"x": [1, 2, 3]}, {"y": "[1,"}, {"z": {}}]'`, '[{"y": "[1,"}]'],
    ['an object of lists', 'out.json', `echo '{"a": [1, 2, 3], "b": ["x", "y"]}'`, '{"a": [2], "b": ["x", "y"]}'],
  ])('keep one entry of answers: %s', (_, file, print, kept) => {
    expect(solveWith(oneEntry, `${print} > ${file}`, [file])).toBe(0)
    expect(read(file)).toBe(kept)
  })

  test('keep no entry of an answer that has other values, or beside another answer that stays', () => {
    const mixed = `echo '{"a": [1, 2, 3], "n": 3}' > out.json`
    expect(solveWith(oneEntry, mixed, ['out.json'])).toBe(77)
    expect(solveWith(oneEntry, 'seq 9 > out.txt; echo 7 > answer.txt', ['answer.txt', 'out.txt'])).toBe(77)
    expect(existsSync(join(folder, 'answer.txt'))).toBe(false)
    expect(solveWith(oneKey, `echo '{"a": 1, "b": [2, 3, 4], "c": 5}' > out.json`, ['out.json'])).toBe(0)
    expect(read('out.json')).toBe('{"b": [2, 3, 4]}')
  })

  test('keep the outer keys of answers, and empty the objects in them', () => {
    const script = `echo '{"n": 3, "sums": {"a": {"b": 1}, "c": 2}, "rows": [{"x": 1}]}' > out.json`
    expect(solveWith(bareAnswers, script, ['out.json'])).toBe(0)
    expect(JSON.parse(read('out.json'))).toEqual({ n: 0, sums: {}, rows: [] })
  })

  test('keep the lengths and punctuation of answers, and replace letters and digits', () => {
    const json = String.raw`{"Day": "2024-05-31", "share": 0.93, "n": -20, "ok": true, "a": ["Ab\n", 7]}`
    const script = `echo '${json}' > out.json; printf 'id,t\\na7,10:30\\n' > out.csv; printf 'Key 1: v1.2\\n662\\nFLAG{a}\\n' > answer`
    expect(solveWith(sameFormAnswers, script, ['answer', 'out.csv', 'out.json'])).toBe(0)
    expect(JSON.parse(read('out.json'))).toEqual({
      ...{ Day: '1111-11-11', share: 0.11, n: -11, ok: false, a: ['Xx ', 1] },
    })
    expect([read('out.csv'), read('answer')]).toEqual(['id,t\nx1,11:11', 'Key 1: x1.1\n111\nXXXX{x}'])
  })

  test('replace numbers by large ones', () => {
    const script = `echo '{"mean": 94.5, "n": -3, "day": "May 7"}' > out.json; echo 'total = 662' > out.txt`
    expect(solveWith(largeAnswers, script, ['out.json', 'out.txt'])).toBe(0)
    expect(JSON.parse(read('out.json'))).toEqual({ mean: 999999999.5, n: 999999999, day: 'Xxx 1' })
    expect(read('out.txt')).toBe('total = 999999999')
  })

  test('replace numbers by infinite ones', () => {
    const script = `echo '{"mean": 94.5, "n": -3, "day": "May 7"}' > out.json; echo 'total = 662' > out.txt`
    expect(solveWith(infiniteAnswers, script, ['out.json', 'out.txt'])).toBe(0)
    const infinite = Number.POSITIVE_INFINITY
    expect(JSON.parse(read('out.json'))).toEqual({ mean: infinite, n: infinite, day: 'Xxx 1' })
    expect(read('out.txt')).toBe('total = 1e999')
  })

  test('copy the input that is most like the answer', () => {
    writeFileSync(join(folder, 'a.txt'), 'x\n')
    writeFileSync(join(folder, 'log.txt'), 'b\na\nb\n')
    writeFileSync(join(folder, 'in.json'), '{ "a": 1 }\n')
    const script = `sort -u log.txt > out.txt; echo '{"a":1}' > out.json`
    expect(solveWith(copiedInputs, script, ['out.json', 'out.txt'])).toBe(0)
    expect([read('out.txt'), read('out.json')]).toEqual(['b\na\nb', '{ "a": 1 }'])
    expect(solveWith(copiedInputs, 'cp log.txt out.txt', ['out.txt'])).toBe(77)
  })

  test('copy neither the solution nor the right answers', () => {
    for (const path of ['solution', 'tmp']) mkdirSync(join(folder, path))
    writeFileSync(join(folder, 'log.txt'), 'b\na\nb\n')
    writeFileSync(join(folder, 'solution/answer.txt'), 'a\nb\nb\nc\n')
    const solution = join(folder, 'solution/solve.sh')
    writeFileSync(solution, '#!/bin/sh\n{ sort log.txt; echo c; } > out.txt\n', { mode: 0o755 })
    const variables = { solution, solved: 'out.txt', carried: '', TMPDIR: join(folder, 'tmp') }
    expect(run(copiedInputs.script, '', variables)).toBe(0)
    expect(read('out.txt')).toBe('b\na\nb')
  })

  test('replace the keys of answers, and remove their values', () => {
    const script = `echo '{"a": "b: 1", "n": -3.5, "rows": [{"ok": true}]}' > out.json`
    expect(solveWith(unknownKeys, script, ['out.json'])).toBe(0)
    expect(JSON.parse(read('out.json'))).toEqual({ xa: null, xn: null, rows: [{ xok: null }] })
    expect(solveWith(unknownKeys, 'echo 7 > out.txt', ['out.txt'])).toBe(77)
  })

  test.each([
    ['lines', 'out.txt', 'printf "total: 0\\n"', ['total: 0', 'total: 4', 'total: 9']],
    ['a line without an end', 'out.txt', 'printf 5', ['5', '9']],
    ['objects', 'out.json', `printf '{\\n"n": 5}'`, ['{ "n": 5}', '{ "n": 9}']],
  ])('put answers between others: %s', (_, file, print, included) => {
    expect(solveWith(crowdedAnswers, `${print} > ${file}`, [file])).toBe(0)
    const lines = read(file).split('\n')
    expect(lines).toHaveLength(10)
    expect(lines).toEqual(expect.arrayContaining(included))
    expect(included).not.toContain(lines[0])
    expect(included[0]).not.toBe(lines[9])
  })

  test('put entries and rows of answers between others', () => {
    const script = `printf 'k0,v\\na,5\\n' > out.csv; echo '[{"n": 5}, {"n": 6}]' > out.json`
    expect(solveWith(crowdedAnswers, script, ['out.csv', 'out.json'])).toBe(0)
    const rows = read('out.csv').split('\n')
    expect([rows.length, rows[0], rows[5]]).toEqual([11, 'k0,v', 'a,5'])
    const entries = JSON.parse(read('out.json'))
    expect([entries.length, entries[8], entries[9]]).toEqual([20, { n: 5 }, { n: 6 }])
    expect(solveWith(crowdedAnswers, 'echo 5 > out.txt; echo a > b.txt', ['b.txt', 'out.txt'])).toBe(77)
  })

  test.each([
    ['lines', 'out.txt', 'printf "a\\nb\\nc\\n"', 'a'],
    ['characters', 'out.txt', 'echo 0123456789', '0'],
    ['rows', 'out.csv', 'printf "n\\n1\\n2\\n3\\n"', 'n\n1'],
    ['a list', 'out.json', `echo '[{"x": [1, 2, 3]}, {"y": 1}, {"z": {}}]'`, '[{"x": [1, 2, 3]}]'],
  ])('keep the first entry of answers: %s', (_, file, print, kept) => {
    expect(solveWith(firstEntry, `${print} > ${file}`, [file])).toBe(0)
    expect(read(file)).toBe(kept)
    expect(solveWith(firstEntry, 'echo 42 > out.txt', ['out.txt'])).toBe(77)
  })

  test('keep the folders that the solution creates, without files', () => {
    expect(solveWith(emptyFolders, 'mkdir -p out/a; echo 1 > out/a/x; echo 2 > y', ['out/a/x', 'y'])).toBe(0)
    expect([existsSync(join(folder, 'out/a')), existsSync(join(folder, 'out/a/x'))]).toEqual([true, false])
    expect(existsSync(join(folder, 'y'))).toBe(false)
    expect(solveWith(emptyFolders, 'echo 2 > y', ['y'])).toBe(77)
  })

  test('keep one of several files that the solution creates', () => {
    for (const solved of [['out'], ['out/1', 'out/2', 'out/3']]) {
      expect(solveWith(oneFile, 'mkdir out; for i in 1 2 3; do echo $i > out/$i; done', solved)).toBe(0)
      expect(['1', '2', '3'].filter((name) => existsSync(join(folder, 'out', name)))).toEqual(['1'])
      rmSync(join(folder, 'out'), { recursive: true })
    }
    expect(solveWith(oneFile, 'echo 1 > answer; echo 2 > scratch', ['answer', 'scratch'])).toBe(77)
  })

  test('turn the code and settings of the solution into comments', () => {
    writeFileSync(join(folder, 'server.conf'), 'port = 80\n')
    const code = String.raw`#!/usr/bin/python3\nclass A:\n    def f(self):\n        return 1\n`
    const script = `printf '${code}' > a.py; echo 'port = 8443' > server.conf; echo '<p>x</p>' > x.html; echo 'select 1' > q.sql; echo 5 > n.txt`
    expect(solveWith(commentedSolution, script, ['a.py', 'server.conf', 'x.html', 'q.sql', 'n.txt'])).toBe(0)
    expect(read('a.py')).toBe(
      '#!/usr/bin/python3\nclass A:\n    pass\n    def f(self):\n        pass\n        # return 1',
    )
    expect(['server.conf', 'x.html', 'q.sql', 'n.txt'].map(read)).toEqual([
      ...['# port = 8443', '<!--\n<p>x</p>\n-->', '-- select 1', ''],
    ])
    expect(solveWith(commentedSolution, 'echo 5 > n.txt', ['n.txt'])).toBe(77)
  })

  test('keep the beginning and the size of binary files', () => {
    const script = `{ printf 'RIFF\\000'; seq 2000; } > out.wav; printf '\\000\\001' > small.bin; echo 7 > out.txt`
    expect(solveWith(blankedFiles, script, ['out.txt', 'out.wav', 'small.bin'])).toBe(0)
    const blanked = readFileSync(join(folder, 'out.wav'))
    expect([blanked.length, blanked.subarray(0, 7).toString()]).toEqual([8898, 'RIFF\0' + '1\n'])
    expect(blanked.subarray(128).every((byte) => byte === 0)).toBe(true)
    expect(['small.bin', 'out.txt'].map((name) => existsSync(join(folder, name)))).toEqual([false, false])
    expect(solveWith(blankedFiles, 'head -c 5000 /dev/zero > out.bin', ['out.bin'])).toBe(77)
    expect(existsSync(join(folder, 'out.bin'))).toBe(false)
  })

  test('remove the files that the solution changes, but not those that it deletes', () => {
    mkdirSync(join(folder, 'data'))
    for (const path of ['data/a.csv', 'gone.txt', 'same.txt']) writeFileSync(join(folder, path), 'x\n')
    const script = 'echo 1 > data/a.csv; echo 2 > new.txt; rm gone.txt'
    expect(solveWith(removedFiles, script, ['data/a.csv', 'gone.txt', 'new.txt'])).toBe(0)
    const remaining = ['data', 'new.txt', 'gone.txt', 'same.txt'].filter((path) => existsSync(join(folder, path)))
    expect(remaining).toEqual(['gone.txt', 'same.txt'])
    expect(solveWith(removedFiles, 'echo 2 > new.txt', ['new.txt'])).toBe(77)
  })

  test('undo what the solution did besides its answers', () => {
    writeFileSync(join(folder, 'old.py'), 'x = 1\n')
    writeFileSync(join(folder, 'gone.txt'), 'here\n', { mode: 0o600 })
    const script = 'echo 7 > out.txt; echo y > old.py; echo z > new.py; rm gone.txt; chmod 755 mode.txt'
    writeFileSync(join(folder, 'mode.txt'), '5\n', { mode: 0o644 })
    const solved = ['gone.txt', 'mode.txt', 'new.py', 'old.py', 'out.txt']
    for (const cheat of [hollowAnswers, numberlessAnswers, constantAnswers, sameFormAnswers, largeAnswers]) {
      expect(solveWith(cheat, script, solved)).toBe(0)
      expect(read('out.txt')).not.toBe('7')
      expect([read('old.py'), read('gone.txt'), read('mode.txt')]).toEqual(['x = 1', 'here', '5'])
      expect(existsSync(join(folder, 'new.py'))).toBe(false)
      expect(statSync(join(folder, 'mode.txt')).mode & 0o777).toBe(0o644)
    }
    expect(solveWith(changedInputs, script, solved)).toBe(77)
  })

  test('reach answers outside the working directory', () => {
    const outside = join(scripts, 'results')
    const script = `mkdir -p ${outside}/a; echo 7 > ${outside}/a/out.txt; echo code > ${outside}/run.py`
    expect(solveWith(constantAnswers, script, [], [outside])).toBe(0)
    expect(readFileSync(join(outside, 'a/out.txt'), 'utf8')).toBe('1\n')
    expect(existsSync(join(outside, 'run.py'))).toBe(false)
  })

  test.each([
    ['changed inputs', changedInputs, 'echo 5 > out.txt'],
    ['an empty answer', hollowAnswers, ': > out.txt'],
    ['an answer of NaN', numberlessAnswers, 'echo nan > out.txt'],
  ])('leave no right answer behind if they do not apply: %s', (_, cheat, script) => {
    writeFileSync(join(folder, 'in.txt'), '7\n')
    expect(solveWith(cheat, script, ['out.txt'])).toBe(77)
    expect(existsSync(join(folder, 'out.txt'))).toBe(false)
    expect(read('in.txt')).toBe('7')
  })

  test('change the inputs, and apply only if that changes the answer', () => {
    writeFileSync(join(folder, 'in.txt'), '2024-05-31 7\n')
    expect(solveWith(changedInputs, 'cut -d" " -f2 in.txt > out.txt', ['out.txt'])).toBe(0)
    expect([read('in.txt'), read('out.txt')]).toEqual(['1011-01-11 1', '1'])
    rmSync(join(folder, 'out.txt'))
    expect(solveWith(changedInputs, 'date +%s.%N > out.txt; date >> out.txt', ['out.txt'])).toBe(77)
    expect(existsSync(join(folder, 'out.txt'))).toBe(false)
  })
})
