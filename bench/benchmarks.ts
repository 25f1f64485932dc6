import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { x as unpack } from 'tar'
import { type PackageRegistryServer, startPackageRegistry } from '../test/support/package-registry.ts'
import { startService } from '../test/support/service.ts'
import { atMost, type BenchMeasurement, mebibytes, median, note, seconds, times } from './measure.ts'

const TASKS = 500
const FILES = 20
const ROUNDS = 3
const PARALLEL = 8

/** Adds a dataset of maximum size from a local registry. */
export const benchmarksBench: BenchMeasurement = {
  name: 'Adding a benchmark',
  about: `${TASKS} tasks of ${FILES} files from a package registry on loopback: downloaded, every digest recomputed, every task checked and stored, compared with only downloading and unpacking the same archives, ${PARALLEL} at a time; medians of ${ROUNDS}.`,
  run: async () => {
    await using registry = await startPackageRegistry()
    const archives = await publish(registry)
    const [plains, firsts, agains, peaks]: number[][] = [[], [], [], []]
    for (let round = 0; round < ROUNDS; round++) {
      plains?.push(await plain(registry, archives))
      const added = await add(registry)
      firsts?.push(added.first)
      agains?.push(added.again)
      peaks?.push(added.peakMiB)
    }
    const [plainS, firstS, againS] = [plains, firsts, agains].map((all) => median(all ?? []))
    return [
      atMost('added, ratio to download and unpack', Number(firstS) / Number(plainS), 3, times),
      note('added; plainly downloaded and unpacked', `${seconds(Number(firstS))}; ${seconds(Number(plainS))}`),
      atMost('added again without changes, ratio to the first time', Number(againS) / Number(firstS), 0.1, times),
      atMost('peak memory of the service', Math.max(...(peaks ?? [])), 400, mebibytes),
    ]
  },
}

async function publish({ rows }: PackageRegistryServer): Promise<string[]> {
  const tasks = []
  for (let n = 0; n < TASKS; n++) tasks.push(await rows.publishTask({ name: `bench/task-${n}`, files: taskFiles(n) }))
  rows.publishDataset({ name: 'bench/large', tasks })
  return tasks.map((task) => task.archive_path)
}

/** Writes a typical task: a few small texts, sources and data. */
function taskFiles(n: number): [string, string][] {
  const extra = Array.from({ length: FILES - 5 }, (_, k): [string, string] => [
    `environment/src/module_${k}.py`,
    `# ${n}.${k}\n${`def f_${k}(x):\n    return x + ${k}\n\n`.repeat(40)}`,
  ])
  return [
    ['task.toml', `schema_version = "1.4"\n[task]\nname = "bench/task-${n}"\n[agent]\ntimeout_sec = 60\n`],
    ['instruction.md', `Mend module ${n}. ${'The tests say how. '.repeat(40)}\n`],
    ['environment/Dockerfile', 'FROM debian:bookworm-slim\nWORKDIR /app\nCOPY src /app\n'],
    ['tests/test.sh', '#!/bin/bash\npython3 -m pytest /tests && echo 1 > /logs/verifier/reward.txt\n'],
    ['solution/solve.sh', '#!/bin/bash\nsed -i s/1/2/ /app/module_1.py\n'],
    ...extra,
  ]
}

async function plain({ url, publicKey }: PackageRegistryServer, archives: string[]): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'assay-bench-'))
  const queue = archives.entries()
  const started = performance.now()
  const worker = async () => {
    for (const [n, path] of queue) {
      const target = join(folder, String(n))
      await mkdir(target)
      const headers = { apikey: publicKey, authorization: `Bearer ${publicKey}` }
      const response = await fetch(`${url}/storage/v1/object/packages/${path}`, { headers })
      if (!response.ok || !response.body) throw new Error(`The registry answered ${response.status}.`)
      await pipeline(response.body, unpack({ cwd: target }))
    }
  }
  await Promise.all(Array.from({ length: PARALLEL }, worker))
  const took = (performance.now() - started) / 1000
  rmSync(folder, { recursive: true })
  return took
}

async function add(registry: PackageRegistryServer): Promise<{ first: number; again: number; peakMiB: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'assay-bench-'))
  const service = await startService('serve', ['--data', folder, '--port', '0'], {
    ASSAY_REGISTRIES: 'harbor',
    ASSAY_HARBOR_URL: registry.url,
    ASSAY_HARBOR_PUBLIC_KEY: registry.publicKey,
  })
  const post = async (): Promise<number> => {
    const started = performance.now()
    const response = await fetch(`${service.url}/api/orgs/local/benchmarks`, {
      method: 'POST',
      headers: { authorization: `Bearer ${service.newKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ reference: 'bench/large' }),
    })
    if (response.status > 201) throw new Error(await response.text())
    return (performance.now() - started) / 1000
  }
  try {
    const [first, again] = [await post(), await post()]
    const status = readFileSync(`/proc/${service.process.pid}/status`, 'utf8')
    return { first, again, peakMiB: Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024 }
  } finally {
    await service.kill('SIGTERM')
    rmSync(folder, { recursive: true, force: true })
  }
}
