import { useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { listBenchmarks } from '../endpoints.gen.ts'
import { useSession } from '../session/session.tsx'

export function OverviewPage() {
  const { org } = useSession()
  const benchmarks = useRead(listBenchmarks)
  return (
    <Page title="Overview" crumbs={`workspace ${org}`}>
      <Card title="Benchmarks">
        <Loaded query={benchmarks}>
          {({ benchmarks: all }) =>
            all.length === 0 ? (
              <Empty command="assay benchmarks add assay/quick">
                Datasets that this workspace has added appear here. Add the bundled sample to begin.
              </Empty>
            ) : (
              <ul className="rows">
                {all.map(({ datasetOrg, dataset, tasks }) => (
                  <li key={`${datasetOrg}/${dataset}`}>
                    <bdi>
                      {datasetOrg}/{dataset}
                    </bdi>{' '}
                    <span className="muted">{tasks} tasks</span>
                  </li>
                ))}
              </ul>
            )
          }
        </Loaded>
      </Card>
    </Page>
  )
}
