import { Link } from '@tanstack/react-router'
import type { Benchmark } from '../../../src/benchmarks/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { useRead } from '../api/use-api.ts'
import { DataTable } from '../components/data-table.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { formatTime } from '../components/times.ts'
import { listBenchmarks } from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'
import { AddBenchmarkForm } from './add-benchmark-form.tsx'
import { describeCalibration } from './calibration-text.ts'

/** The datasets of the workspace, and a form that adds another one. */
export function BenchmarksPage() {
  const benchmarks = useRead(listBenchmarks, { query: { limit: 200 } })
  return (
    <Page title="Benchmarks">
      <Card>
        <Loaded query={benchmarks}>
          {({ benchmarks: all }) =>
            all.length === 0 ? (
              <Empty command="assay benchmarks add assay/quick">
                Datasets that this workspace has added appear here. Every task is checked before anything of it is
                executed.
              </Empty>
            ) : (
              <DataTable
                label="Benchmarks"
                heads={['Dataset', 'Version', '#Tasks', '#Warnings', 'Calibration', '#Added', '']}
              >
                {all.map((benchmark) => (
                  <BenchmarkRow key={benchmark.digest} benchmark={benchmark} />
                ))}
              </DataTable>
            )
          }
        </Loaded>
      </Card>
      {useHasPermission('write') && <AddBenchmarkForm />}
    </Page>
  )
}

const VERSION_LENGTH_MAX = 40

function BenchmarkRow({ benchmark }: { benchmark: Benchmark }) {
  const { datasetOrg, dataset, ref, resolvedRef, tasks, check, addedAt } = benchmark
  const name = `${datasetOrg}/${dataset}`
  const version = ref === resolvedRef ? ref : `${ref} (${resolvedRef})`
  return (
    <tr>
      <td>
        <Link to="/benchmarks/$datasetOrg/$dataset" params={{ datasetOrg, dataset }}>
          <bdi>{name}</bdi>
        </Link>
      </td>
      <td>
        <bdi>{replaceUnsafeCharacters(version).slice(0, VERSION_LENGTH_MAX)}</bdi>
      </td>
      <td className="number">{tasks}</td>
      <td className="number">{check.warnings.length}</td>
      <td>{describeCalibration(benchmark)}</td>
      <td className="number">{formatTime(addedAt)}</td>
      <td className="number">
        <Link to="/comparisons/new" search={{ on: `benchmark ${name}` }}>
          Compare<span className="hidden"> on {name}</span>
        </Link>
      </td>
    </tr>
  )
}
