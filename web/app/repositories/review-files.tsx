import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { BatchTaskDetail } from '../../../src/batches/schema.ts'
import { nameUnsafe } from '../../../src/platform/terminal-text.ts'
import { useApi } from '../api/use-api.ts'
import { DiffLines } from '../components/diff-lines.tsx'
import { Card, Empty } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { useTextFile } from '../components/text-file.ts'
import { VirtualLines } from '../components/virtual-lines.tsx'
import { readBatchTaskFile } from '../endpoints.gen.ts'

const GROUPS = [
  { id: 'instruction', label: 'Instruction', folder: undefined },
  { id: 'tests', label: 'Hidden tests', folder: 'tests/' },
  { id: 'solution', label: 'Solution', folder: 'solution/' },
  { id: 'environment', label: 'Environment', folder: 'environment/' },
] as const
type GroupId = (typeof GROUPS)[number]['id']

/** The parts of a task: its instruction, and the files that the agent does not see. */
export function ReviewFiles({ task }: { task: BatchTaskDetail }) {
  const [group, setGroup] = useState<GroupId>('instruction')
  const listIn = (folder: string) => task.files.map(({ path }) => path).filter((path) => path.startsWith(folder))
  const folder = GROUPS.find(({ id }) => id === group)?.folder
  return (
    <Card>
      <div className="tabs">
        {GROUPS.map(({ id, label, folder: tabFolder }) => (
          <button type="button" key={id} aria-pressed={id === group} onClick={() => setGroup(id)}>
            {label} {tabFolder && <span className="faint">{listIn(tabFolder).length}</span>}
          </button>
        ))}
      </div>
      {folder === undefined ? (
        <Instruction task={task} />
      ) : (
        <FileGroup key={folder} taskId={task.taskId} paths={listIn(folder)} />
      )}
    </Card>
  )
}

function Instruction({ task: { instruction, rejection, deferred } }: { task: BatchTaskDetail }) {
  return (
    <>
      {rejection && (
        <p className="fail-mark">
          Rejected: <bdi>{nameUnsafe(rejection.detail ?? '')}</bdi>
        </p>
      )}
      {deferred && (
        <p>
          Waiting: <bdi>{nameUnsafe(deferred.detail ?? '')}</bdi>
        </p>
      )}
      {instruction === null ? (
        <Empty>The instruction appears here when it has been written.</Empty>
      ) : (
        <pre className="instruction">
          <bdi>{nameUnsafe(instruction)}</bdi>
        </pre>
      )}
    </>
  )
}

function FileGroup({ taskId, paths }: { taskId: string; paths: readonly string[] }) {
  const [path = '', setPath] = useState(paths.find(isDiff) ?? paths[0])
  if (path === '') return <Empty>This task has no files of this kind.</Empty>
  return (
    <>
      {paths.length > 1 && (
        <p className="actions">
          <label>
            File{' '}
            <select value={path} onChange={(event) => setPath(event.target.value)}>
              {paths.map((each) => (
                <option key={each} value={each}>
                  {nameUnsafe(each)}
                </option>
              ))}
            </select>
          </label>
        </p>
      )}
      <TaskFile key={path} taskId={taskId} path={path} />
    </>
  )
}

const isDiff = (path: string): boolean => /\.(?:patch|diff)$/.test(path)

function TaskFile({ taskId, path }: { taskId: string; path: string }) {
  const api = useApi()
  const params = useParams({ from: '/repos/$owner/$name/batches/$runId/review' })
  const input = { params: { ...params, taskId, path } }
  const file = useTextFile(`${taskId} ${path}`, (signal) => api.openFile(readBatchTaskFile, input, signal))
  if (file.state === 'failed') return <ProblemNote error={file.error} />
  return (
    <>
      <p className="small muted">
        <bdi>{nameUnsafe(path)}</bdi>{' '}
        <a href={api.fileUrl(readBatchTaskFile, input)} download>
          Download
        </a>
      </p>
      {isDiff(path) ? <DiffLines label={path} lines={file.lines} /> : <VirtualLines label={path} lines={file.lines} />}
    </>
  )
}
