import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { SweInstance } from './swe-rows.ts'

const WORKDIR = '/testbed'

/** Writes a task in Harbor's format. Its tests need nothing but the image and Python. */
export async function writeSweTask(folder: string, instance: SweInstance): Promise<void> {
  const files: Record<string, string> = {
    'task.toml': buildSettings(instance),
    'instruction.md': `${instance.instruction.trimEnd()}\n`,
    'environment/Dockerfile': buildDockerfile(instance),
    'solution/solve.sh': SOLUTION,
    'solution/solution.patch': instance.solutionPatch,
    'tests/test.sh': buildTestScript(instance),
    'tests/test.patch': instance.testPatch,
    'tests/expected.json': `${JSON.stringify([...instance.failToPass, ...instance.passToPass], null, 1)}\n`,
    'tests/grade.py': GRADER,
  }
  for (const [path, text] of Object.entries(files)) {
    await mkdir(join(folder, dirname(path)), { recursive: true })
    await writeFile(join(folder, path), text, { mode: path.endsWith('.sh') ? 0o755 : 0o644 })
  }
}

const quoteToml = (text: string): string => JSON.stringify(text)
const quoteShell = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`

const buildSettings = ({ id, repository }: SweInstance): string => `version = "1.0"

[metadata]
category = "software-engineering"
tags = ["swe"]
instance_id = ${quoteToml(id)}
repository = ${quoteToml(repository)}

[verifier]
timeout_sec = 1800.0

[agent]
timeout_sec = 3000.0

[environment]
build_timeout_sec = 1800.0
cpus = 2
memory_mb = 4096
storage_mb = 10240
`

/** Builds the Dockerfile. It replaces the git history, because commits in the images contain solutions. */
const buildDockerfile = ({ image }: SweInstance): string => `FROM ${image}
WORKDIR ${WORKDIR}
RUN rm -rf .git && git init --quiet && git add --all && git -c user.name=base -c user.email=base@example.org commit --quiet --message base
`

const SOLUTION = `#!/bin/bash
set -e
cd ${WORKDIR}
git apply /solution/solution.patch
`

/** Builds the test script. It resets test files to the first commit and applies the test patch, as SWE-bench does. */
function buildTestScript({ testFiles, testCommand }: SweInstance): string {
  const files = testFiles.map(quoteShell).join(' ')
  return `#!/bin/bash
mkdir -p /logs/verifier
echo 0 > /logs/verifier/reward.txt
if [ -f /opt/miniconda3/bin/activate ]; then . /opt/miniconda3/bin/activate testbed; fi
cd ${WORKDIR} || exit 1
base=$(git rev-list --max-parents=0 HEAD | tail -n 1)
for file in ${files}; do
  git checkout --quiet "$base" -- "$file" 2> /dev/null || rm -rf "$file"
done
git apply /tests/test.patch || exit 1
(${testCommand} ${files}) > /logs/verifier/tests.log 2>&1
cat /logs/verifier/tests.log
python3 /tests/grade.py /logs/verifier/tests.log /tests/expected.json > /logs/verifier/reward.txt
`
}

/** Script that reads the reports of pytest, Django and SymPy. It prints 1 if all expected tests passed, otherwise 0. */
const GRADER = `import json
import re
import sys

log, expected = sys.argv[1:]
passed = {}
for line in open(log, errors="replace"):
    line = re.sub(r"\\x1b\\[[0-9;]*m", "", line.rstrip("\\n"))
    match = re.match(r"(PASSED|FAILED|ERROR|XFAIL|XPASS|SKIPPED) (\\S.*?)(?: - .*)?$", line)
    if match:
        passed[match[2]] = passed.get(match[2], True) and match[1] in ("PASSED", "XFAIL")
        continue
    match = re.match(r"(\\S.*?) \\.\\.\\. (ok|FAIL|ERROR|expected failure|skipped)", line)
    if match:
        passed[match[1]] = passed.get(match[1], True) and match[2] == "ok"
        continue
    match = re.match(r"(test_\\w+) (ok|F|E)\\b", line)
    if match:
        passed[match[1]] = passed.get(match[1], True) and match[2] == "ok"
missing = [name for name in json.load(open(expected)) if not passed.get(name)]
for name in missing:
    print("did not pass:", name, file=sys.stderr)
print(0 if missing else 1)
`
