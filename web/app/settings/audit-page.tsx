import { useState } from 'react'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import type { AuditEvent } from '../../../src/workspaces/schema.ts'
import { useRead } from '../api/use-api.ts'
import { DataTable } from '../components/data-table.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Page } from '../components/page.tsx'
import { formatTime } from '../components/times.ts'
import { listAudit } from '../endpoints.gen.ts'

const EVENTS_MAX = 100

/** Shows the audit log, newest first. */
export function AuditPage() {
  // Cursors of the pages from the first to the current one. The first page has none.
  const [cursors, setCursors] = useState<string[]>([])
  const cursor = cursors.at(-1)
  const events = useRead(
    listAudit,
    { query: cursor ? { limit: EVENTS_MAX, cursor } : { limit: EVENTS_MAX } },
    { keepPrevious: true },
  )
  return (
    <Page title="Audit log">
      <Card>
        <Loaded query={events}>
          {(loaded) => (
            <>
              <DataTable label="Audit log" heads={['Time', 'Actor', 'Action', 'Subject', 'Detail']}>
                {loaded.events.map(({ id, at, actor, action, subject, detail }) => (
                  <tr key={id}>
                    <td>{formatTime(at)}</td>
                    <td>
                      <code>{actor}</code>
                    </td>
                    <td>{action}</td>
                    <td>
                      <bdi>
                        <code>{replaceUnsafeCharacters(subject)}</code>
                      </bdi>
                    </td>
                    <td className="muted">
                      <bdi>{replaceUnsafeCharacters(formatDetail(detail))}</bdi>
                    </td>
                  </tr>
                ))}
              </DataTable>
              <div className="actions">
                {cursors.length > 0 && (
                  <button type="button" className="button" onClick={() => setCursors(cursors.slice(0, -1))}>
                    Newer
                  </button>
                )}
                {loaded.nextCursor !== null && (
                  <button
                    type="button"
                    className="button"
                    onClick={() => setCursors([...cursors, loaded.nextCursor ?? ''])}
                  >
                    Older
                  </button>
                )}
              </div>
            </>
          )}
        </Loaded>
      </Card>
    </Page>
  )
}

const formatDetail = (detail: AuditEvent['detail']): string =>
  Object.entries(detail)
    .map(([name, value]) => `${name}: ${value}`)
    .join(', ')
