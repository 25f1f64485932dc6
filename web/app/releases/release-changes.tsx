import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import type { Preview, PublishedRelease } from '../../../src/releases/shapes/schema.ts'
import { formatDate, percent, plural, usd } from '../../components/format.ts'
import { nameSetting } from '../comparisons/text.ts'
import { DataTable } from '../components/data-table.tsx'
import { Card } from '../components/page.tsx'

type ReleaseChangesProps = { preview: Preview; head: PublishedRelease | undefined }
type SettingNumbers = { accuracy: number | null; costPerTaskUsd: number | null; onFrontier: boolean }
type ChangeRow = {
  key: string
  name: string
  kind: 'new' | 'removed' | 'changed'
  before?: SettingNumbers | undefined
  after?: SettingNumbers | undefined
}

/** Lists the differences between the preview and the release that is public now. */
export function ReleaseChanges({ preview, head }: ReleaseChangesProps) {
  if (preview.head === null)
    return (
      <Card title="Changes">
        <p className="muted">Nothing of this repository is public now.</p>
      </Card>
    )
  const rows = listChanges(preview, head)
  const taskDifference = head ? preview.tasks - head.tasks : 0
  return (
    <Card title={head ? `Changes since the release of ${formatDate(head.releasedAt)}` : 'Changes'}>
      {rows.length === 0 ? (
        <p className="muted">The same settings with the same numbers.</p>
      ) : (
        <DataTable label="Changes" heads={['Setting', 'Change', '#Solved', '#USD per task', 'Frontier']}>
          {rows.map((row) => (
            <ChangeTableRow key={row.key} row={row} />
          ))}
        </DataTable>
      )}
      {taskDifference !== 0 && (
        <p className="muted">
          {plural(Math.abs(taskDifference), 'task')} {taskDifference > 0 ? 'more' : 'fewer'} than now.
        </p>
      )}
    </Card>
  )
}

function listChanges({ changes, settings }: Preview, head: PublishedRelease | undefined): ChangeRow[] {
  const previewSettings = new Map(settings.map((setting) => [setting.key, setting]))
  const publishedSettings = new Map(head?.settings.map((setting) => [setting.id, setting]))
  const toRow =
    (kind: ChangeRow['kind']) =>
    (key: string): ChangeRow => {
      const [before, after] = [publishedSettings.get(key), previewSettings.get(key)]
      const setting = after ?? before
      return {
        key,
        kind,
        name: setting ? nameSetting(setting) : key,
        before: kind === 'new' ? undefined : before,
        after: kind === 'removed' ? undefined : after,
      }
    }
  return [
    ...changes.added.map(toRow('new')),
    ...changes.moved.map(toRow('changed')),
    ...changes.removed.map(toRow('removed')),
  ]
}

function ChangeTableRow({ row: { name, kind, before, after } }: { row: ChangeRow }) {
  return (
    <tr>
      <td>
        <bdi>{replaceUnsafeCharacters(name)}</bdi>
      </td>
      <td>{kind}</td>
      <td className="number">{formatChange(before?.accuracy, after?.accuracy, percent)}</td>
      <td className="number">{formatChange(before?.costPerTaskUsd, after?.costPerTaskUsd, usd)}</td>
      <td>{describeFrontier(before?.onFrontier ?? false, after?.onFrontier ?? false)}</td>
    </tr>
  )
}

/** Formats a change as `before → after`. Only one number is shown if the other is missing or formatted equally. */
function formatChange(
  before: number | null | undefined,
  after: number | null | undefined,
  format: (value: number) => string,
): string {
  const formatted = [before, after].flatMap((value) => (value === null || value === undefined ? [] : format(value)))
  return [...new Set(formatted)].join(' → ')
}

function describeFrontier(before: boolean, after: boolean): string {
  if (before === after) return after ? 'stays' : ''
  return after ? 'joins' : 'leaves'
}
