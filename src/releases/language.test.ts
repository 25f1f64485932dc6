import { expect, test } from 'vitest'
import { detectLanguage } from './publish.ts'

test.each([
  ['nothing', [], null],
  ['a task without source files', [['instruction.md', 'solution/solve.sh']], null],
  [
    'a generated task',
    [['tests/grader/grade.py', 'tests/grader/util.py', 'tests/grader/hidden/src/a.test.ts']],
    'typescript',
  ],
  ['sources before tests', [['environment/main.go', 'tests/test_outputs.py', 'solution/solve.sh']], 'go'],
  ['tests, if nothing else', [['environment/Dockerfile', 'tests/test_outputs.py']], 'python'],
  [
    'most tasks',
    [['environment/a.rs'], ['environment/a.rs'], ['environment/a.py', 'environment/b.py', 'environment/c.py']],
    'rust',
  ],
  ['a tie, by name', [['environment/a.rs'], ['environment/a.go']], 'go'],
])('the language of %s', (_, tasks, language) => {
  expect(detectLanguage(tasks)).toBe(language)
})
