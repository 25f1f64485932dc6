import { Link } from '@tanstack/react-router'
import type { Repository } from '../../../src/repos/schema.ts'
import { formatDate, plural, repositoryPath } from '../../components/format.ts'
import { useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { listReleases, listRepositories } from '../endpoints.gen.ts'

/** The repositories with their newest release. Results are published per repository. */
export function ReleasesPage() {
  const repositories = useRead(listRepositories, { query: { limit: 100 } })
  return (
    <Page title="Releases">
      <Card>
        <Loaded query={repositories}>
          {({ repos }) =>
            repos.length === 0 ? (
              <Empty command="assay repos connect <owner>/<name>">
                Published results appear here. They belong to a repository: connect one, approve tasks of it and compare
                on them.
              </Empty>
            ) : (
              <ul className="rows">
                {repos.map((repository) => (
                  <RepositoryRow key={repository.fullName} repository={repository} />
                ))}
              </ul>
            )
          }
        </Loaded>
      </Card>
    </Page>
  )
}

function RepositoryRow({ repository: { owner, name, fullName } }: { repository: Repository }) {
  const releases = useRead(listReleases, { params: { owner, name }, query: { limit: 1 } })
  const newest = releases.data?.releases[0]
  return (
    <li className="row-line">
      <Link to="/repos/$owner/$name/publish" params={{ owner, name }}>
        <bdi>{fullName}</bdi>
      </Link>
      <span className="muted">
        {releases.isSuccess && !newest && 'nothing published'}
        {newest?.withdrawn && `withdrawn on ${formatDate(newest.withdrawn.at)}`}
        {newest && !newest.withdrawn && (
          <>
            {formatDate(newest.releasedAt)} · {plural(newest.tasks, 'task')} ·{' '}
            {plural(newest.settings.length, 'setting')} ·{' '}
            <a href={repositoryPath(fullName)}>
              Public page<span className="hidden"> of {fullName}</span>
            </a>
          </>
        )}
      </span>
    </li>
  )
}
