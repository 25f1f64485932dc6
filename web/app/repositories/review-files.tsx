import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { BatchTaskDetail } from '../../../src/batches/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { FileBrowser, isDiff } from '../components/file-browser.tsx'
import { Card, Empty } from '../components/page.tsx'
import { readBatchTaskFile } from '../endpoints.gen.ts'

/** Tabs of the page. The instruction is part of the task and not read from a folder. */
const FILE_GROUPS = [
  { id: 'instruction', label: 'Instruction', folder: undefined },
  { id: 'tests', label: 'Hidden tests', folder: 'tests/' },
  { id: 'solution', label: 'Solution', folder: 'solution/' },
  { id: 'environment', label: 'Environment', folder: 'environment/' },
] as const
type GroupId = (typeof FILE_GROUPS)[number]['id']

/** Shows a part of a task: its instruction with the patch of its solution, or the files of a folder. */
export function ReviewFiles({ task }: { task: BatchTaskDetail }) {
  const [group, setGroup] = useState<GroupId>('instruction')
  const params = useParams({ from: '/repos/$owner/$name/batches/$runId/review' })
  const listPathsIn = (folder: string) => task.files.map(({ path }) => path).filter((path) => path.startsWith(folder))
  const folder = FILE_GROUPS.find(({ id }) => id === group)?.folder
  const patches = listPathsIn('solution/').filter(isDiff)
  const source = {
    endpoint: readBatchTaskFile,
    toInput: (path: string) => ({ params: { ...params, taskId: task.taskId, path } }),
  }
  return (
    <>
      <Card>
        <div className="tabs">
          {FILE_GROUPS.map(({ id, label, folder: tabFolder }) => (
            <button type="button" key={id} aria-pressed={id === group} onClick={() => setGroup(id)}>
              {label} {tabFolder && <span className="faint">{listPathsIn(tabFolder).length}</span>}
            </button>
          ))}
        </div>
        {folder === undefined ? (
          <Instruction task={task} />
        ) : (
          <FileBrowser key={folder} paths={listPathsIn(folder)} {...source} />
        )}
      </Card>
      {folder === undefined && patches.length > 0 && (
        <Card title="Solution">
          <FileBrowser paths={patches} {...source} />
        </Card>
      )}
    </>
  )
}

function Instruction({ task: { instruction, rejection, deferred } }: { task: BatchTaskDetail }) {
  return (
    <>
      {rejection && (
        <p className="fail-mark">
          Rejected: <bdi>{replaceUnsafeCharacters(rejection.detail ?? '')}</bdi>
        </p>
      )}
      {deferred && (
        <p>
          Waiting: <bdi>{replaceUnsafeCharacters(deferred.detail ?? '')}</bdi>
        </p>
      )}
      {instruction === null ? (
        <Empty>The instruction appears here when it has been written.</Empty>
      ) : (
        <pre className="instruction">
          <bdi>{replaceUnsafeCharacters(instruction)}</bdi>
        </pre>
      )}
    </>
  )
}
