import { Link, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import type { Preview } from '../../../src/releases/shapes/schema.ts'
import { plural, repositoryPath } from '../../components/format.ts'
import { useApi, useChange, useRead } from '../api/use-api.ts'
import { ConfirmButton } from '../components/confirm-button.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { listReleases, previewRelease, previewReleasePage, publishRelease } from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'
import { ReleaseChanges } from './release-changes.tsx'
import { ReleaseHistory } from './release-history.tsx'
import { SettingsChoice } from './settings-choice.tsx'

const ROUTE = '/repos/$owner/$name/publish'
const RELEASES_MAX = 50

/** Chooses settings, previews the public page with them and publishes it. Lists the releases of the repository. */
export function PublishPage() {
  const params = useParams({ from: ROUTE })
  // Keys of the chosen settings. Undefined until the user changes the choice: all settings that can be published.
  const [chosen, setChosen] = useState<readonly string[]>()
  const preview = useRead(
    previewRelease,
    { params, query: chosen ? { setting: [...chosen] } : {} },
    { keepPrevious: true, enabled: chosen?.length !== 0 },
  )
  return (
    <Page
      title="Publish"
      crumbs={
        <>
          <Link to="/releases">Releases</Link> ·{' '}
          <Link to="/repos/$owner/$name" params={params}>
            {params.owner}/{params.name}
          </Link>
        </>
      }
      state={preview.data && <span className="chip">{preview.data.repository.visibility} repository</span>}
    >
      <Loaded query={preview}>
        {(loaded) => (
          <ReleaseChoice
            preview={loaded}
            chosen={chosen ?? listPublishable(loaded)}
            onChoose={setChosen}
            onRejected={() => void preview.refetch()}
          />
        )}
      </Loaded>
      <ReleaseHistory owner={params.owner} name={params.name} />
    </Page>
  )
}

const listPublishable = ({ settings }: Preview): string[] =>
  settings.filter(({ publishable }) => publishable).map(({ key }) => key)

type ReleaseChoiceProps = {
  preview: Preview
  /** Keys of the chosen settings. */
  chosen: readonly string[]
  onChoose: (chosen: readonly string[]) => void
  /** Called if publishing failed, for example because the preview is out of date. */
  onRejected: () => void
}

function ReleaseChoice({ preview, chosen, onChoose, onRejected }: ReleaseChoiceProps) {
  const params = useParams({ from: ROUTE })
  const releases = useRead(listReleases, { params, query: { limit: RELEASES_MAX } })
  const head = releases.data?.releases.find(({ isHead }) => isHead)
  if (preview.settings.length === 0)
    return (
      <Card title="Settings">
        <Empty command={`assay compare --repo ${params.owner}/${params.name} --model <model>`}>
          Settings with results on approved tasks of this repository appear here. Compare on the repository first.
        </Empty>
      </Card>
    )
  return (
    <>
      <BlockersCard blockers={preview.blockers} />
      <SettingsChoice settings={preview.settings} chosen={chosen} onChoose={onChoose} />
      {chosen.length > 0 && (
        <>
          <ReleaseChanges preview={preview} head={head} />
          <PublicPageCard chosen={chosen} />
        </>
      )}
      <PublishCard preview={preview} chosen={chosen} onRejected={onRejected} />
    </>
  )
}

function BlockersCard({ blockers }: Pick<Preview, 'blockers'>) {
  if (blockers.length === 0) return null
  return (
    <Card title="Not possible yet">
      <ul className="rows">
        {blockers.map(({ code, message }) => (
          <li key={code}>
            <span className="fail-mark">!</span> <bdi>{replaceUnsafeCharacters(message)}</bdi>
          </li>
        ))}
      </ul>
    </Card>
  )
}

/** Previews the public page in a frame, rendered by the service. Scripts are disabled, and links open in a new tab. */
function PublicPageCard({ chosen }: { chosen: readonly string[] }) {
  const api = useApi()
  const params = useParams({ from: ROUTE })
  const url = api.urlOf(previewReleasePage, { params, query: { setting: [...chosen] } })
  return (
    <Card
      title="Public page after publishing"
      actions={
        <a className="button" href={url} target="_blank" rel="noreferrer">
          Open in a tab
        </a>
      }
    >
      <iframe
        className="public-page"
        title="Preview of the public page"
        src={url}
        sandbox="allow-same-origin allow-popups allow-popups-to-escape-sandbox"
      />
    </Card>
  )
}

type PublishCardProps = { preview: Preview; chosen: readonly string[]; onRejected: () => void }

function PublishCard({ preview, chosen, onRejected }: PublishCardProps) {
  const params = useParams({ from: ROUTE })
  const [publishTasks, setPublishTasks] = useState(false)
  const publish = useChange(publishRelease, { invalidates: [previewRelease, listReleases] })
  const mayPublish = useHasPermission('write')
  if (!mayPublish) return null
  const { head, fingerprint, blockers, changes } = preview
  // After another setting was chosen, the success message no longer applies.
  const isChoicePublished = publish.variables?.body?.settings.join() === chosen.join()
  const hasNoChanges = head !== null && Object.values(changes).every((ids) => ids.length === 0)
  return (
    <Card title="Publish">
      <p>
        {plural(chosen.length, 'setting')} on {plural(preview.tasks, 'task')} become public under{' '}
        <bdi>{preview.repository.fullName}</bdi>, published by <bdi>{preview.publisher.login}</bdi>.
        {hasNoChanges && ' Nothing has changed since the current release; publishing keeps it.'}
      </p>
      <label className="check">
        <input type="checkbox" checked={publishTasks} onChange={({ target }) => setPublishTasks(target.checked)} />{' '}
        Publish the files of the tasks too. Published files may have been copied and cannot be recalled.
      </label>
      <p className="actions">
        {chosen.length > 0 && blockers.length === 0 && (
          <ConfirmButton
            label={`Publish ${plural(chosen.length, 'setting')}`}
            isPending={publish.isPending}
            onConfirm={() =>
              publish.mutate(
                { params, body: { settings: [...chosen], head, fingerprint, publishTasks } },
                { onError: onRejected },
              )
            }
          >
            Publish
          </ConfirmButton>
        )}
        {chosen.length === 0 && <span className="muted">Choose at least one setting.</span>}
      </p>
      {publish.isError && <ProblemNote error={publish.error} />}
      {publish.data && isChoicePublished && (
        <p role="status">
          <span className="pass-mark">✓ Published.</span>{' '}
          <a href={repositoryPath(publish.data.repository.fullName)}>Open the public page</a>
        </p>
      )}
    </Card>
  )
}
