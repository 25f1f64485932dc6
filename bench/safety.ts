import { applyRules, readContents } from '../src/harbor/safety/check-task.ts'
import { createMemorySource } from '../src/harbor/source.ts'
import { atMost, type BenchMeasurement, median, milliseconds, note } from './measure.ts'

const FILES = 20
const ROUNDS = 500

export const safetyBench: BenchMeasurement = {
  name: 'Safety check',
  about: `All rules on a task of ${FILES} files with 100 KB of text, in memory, as it comes from a registry; ${ROUNDS} rounds.`,
  run: async () => {
    const source = createMemorySource('bench', Object.entries(files()))
    const times: number[] = []
    for (let round = -50; round < ROUNDS; round++) {
      const started = performance.now()
      applyRules(await readContents(source, { includeIgnored: true }))
      if (round >= 0) times.push(performance.now() - started)
    }
    const p95 = times.toSorted((a, b) => a - b)[Math.floor(ROUNDS * 0.95)] ?? Number.NaN
    return [atMost('p95 per task', p95, 5, milliseconds), note('median per task', milliseconds(median(times)))]
  },
}

function files(): Record<string, string> {
  const line = (n: number) => `def handler_${n}(request):\n    return compute(request.value, ${n})\n`
  const module = Array.from({ length: 110 }, (_, n) => line(n)).join('')
  const own = {
    'task.toml': 'schema_version = "1.4"\n[agent]\ntimeout_sec = 600\n',
    'instruction.md': 'The handlers are slow. Make them quick.\n'.repeat(50),
    'environment/Dockerfile': 'FROM python:3.13-slim\nRUN apt-get update && apt-get install -y git\nCOPY app /app\n',
    'tests/test.sh': 'pytest /tests/test_app.py && echo 1 > /logs/verifier/reward.txt\n',
    'solution/solve.sh': 'patch -p1 < /solution/fix.patch\n',
  }
  const app = Array.from({ length: FILES - Object.keys(own).length }, (_, n) => [`environment/app/${n}.py`, module])
  return { ...own, ...Object.fromEntries(app) }
}
