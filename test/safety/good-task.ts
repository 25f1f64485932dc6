import { checkTask, type SafetyCheck, type SafetyCheckOptions } from '../../src/harbor/safety/check-task.ts'
import type { RuleSeverity } from '../../src/harbor/safety/rule.ts'
import { createMemorySource } from '../../src/harbor/source.ts'
import type { FileContents } from '../support/harbor/folders.ts'

/** A task without findings. Each bad task is this one with a few changed files. */
export const GOOD_TASK: FileContents = {
  'task.toml': `schema_version = "1.4"
[agent]
timeout_sec = 600
[verifier]
timeout_sec = 120
[environment]
cpus = 1
memory_mb = 2048
`,
  'instruction.md': 'The median of an even list is wrong. Mend `app/median.py`.\n',
  'environment/Dockerfile': `FROM python:3.13-slim
WORKDIR /app
COPY app/ /app/
RUN pip install --no-cache-dir pytest==8.4.1
`,
  'environment/app/median.py': 'def median(values):\n    return sorted(values)[len(values) // 2]\n',
  'tests/test.sh': '#!/bin/bash\npytest /tests/test_median.py && echo 1 > /logs/verifier/reward.txt\n',
  'tests/test_median.py': 'from median import median\n\ndef test_even():\n    assert median([1, 2, 3, 4]) == 2.5\n',
  'solution/solve.sh': '#!/bin/bash\nsed -i "s/wrong/right/" /app/median.py # the way the author did it\n',
}

export const changed = (files: FileContents): FileContents => ({ ...GOOD_TASK, ...files })

/** Returns a compose file whose service `main` has these additional lines. */
export const compose = (...lines: string[]): FileContents => ({
  'environment/docker-compose.yaml': [
    'services:',
    '  main:',
    '    build: .',
    ...lines.map((line) => `    ${line}`),
    '',
  ].join('\n'),
})

/** Returns the Dockerfile of the good task with these lines appended. */
export const dockerfile = (...lines: string[]): FileContents => ({
  'environment/Dockerfile': `${GOOD_TASK['environment/Dockerfile']}${lines.join('\n')}\n`,
})

/** Returns the task.toml of the good task with these lines appended, in the section [environment]. */
export const toml = (...lines: string[]): FileContents => ({
  'task.toml': `${GOOD_TASK['task.toml']}${lines.join('\n')}\n`,
})

export const checkFiles = (files: FileContents, options?: SafetyCheckOptions): Promise<SafetyCheck> =>
  checkTask(createMemorySource('good-task', Object.entries(files)), options)

/** Returns the rules with findings, each once. */
export const rulesOf = ({ findings }: SafetyCheck, severity: RuleSeverity): string[] => [
  ...new Set(findings.filter((finding) => finding.severity === severity).map(({ rule }) => rule)),
]
