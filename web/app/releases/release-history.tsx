import { type FormEvent, useState } from 'react'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import type { PublishedRelease } from '../../../src/releases/shapes/schema.ts'
import { formatDate, plural, releasePath } from '../../components/format.ts'
import { useChange, useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { listReleases, previewRelease, withdrawRelease } from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'

const RELEASES_MAX = 50

/** Lists the releases of a repository, newest first. Withdrawn releases remain, with the reason. */
export function ReleaseHistory({ owner, name }: { owner: string; name: string }) {
  const releases = useRead(listReleases, { params: { owner, name }, query: { limit: RELEASES_MAX } })
  return (
    <Card title="Releases">
      <Loaded query={releases}>
        {(loaded) =>
          loaded.releases.length === 0 ? (
            <Empty command={`assay releases publish --repo ${owner}/${name}`}>
              Published results of this repository appear here.
            </Empty>
          ) : (
            <ul className="rows">
              {loaded.releases.map((release) => (
                <ReleaseRow key={release.releaseId} release={release} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  )
}

function ReleaseRow({ release }: { release: PublishedRelease }) {
  const { releaseId, releasedAt, repository, tasks, settings, isHead, withdrawn } = release
  const mayWithdraw = useHasPermission('admin')
  return (
    <li>
      <p className="row-line">
        <span>
          <a href={releasePath(repository.fullName, releaseId)}>Release of {formatDate(releasedAt)}</a>{' '}
          {isHead && <span className="chip pass">● public</span>}
          {withdrawn && <span className="chip fail">× withdrawn</span>}
        </span>
        <span className="muted">
          {plural(tasks, 'task')} · {plural(settings.length, 'setting')}
        </span>
      </p>
      {withdrawn && (
        <p className="small muted">
          {formatDate(withdrawn.at)}: <bdi>{replaceUnsafeCharacters(withdrawn.reason)}</bdi>
        </p>
      )}
      {mayWithdraw && !withdrawn && <WithdrawForm release={release} />}
    </li>
  )
}

function WithdrawForm({ release: { repository, releaseId, releasedAt } }: { release: PublishedRelease }) {
  const [reason, setReason] = useState('')
  const withdraw = useChange(withdrawRelease, { invalidates: [listReleases, previewRelease] })
  const [owner = '', name = ''] = repository.fullName.split('/')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    withdraw.mutate({ params: { owner, name, releaseId }, body: { reason } })
  }
  const id = `reason-${releaseId}`
  return (
    <details className="small">
      <summary>Withdraw…</summary>
      <form className="fields" onSubmit={submit}>
        <label htmlFor={id}>Reason, which everybody can read</label>
        <input id={id} required maxLength={1000} value={reason} onChange={({ target }) => setReason(target.value)} />
        <button type="submit" className="button danger" disabled={withdraw.isPending}>
          Withdraw<span className="hidden"> the release of {formatDate(releasedAt)}</span>
        </button>
        {withdraw.isError && <ProblemNote error={withdraw.error} />}
      </form>
    </details>
  )
}
