import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useEffect, useEffectEvent, useRef, useState } from 'react'
import type { BatchTask, BatchTaskDetail } from '../../../src/batches/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { plural } from '../../components/format.ts'
import type { ApiBody } from '../api/api.ts'
import { useChange, useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { isTyping } from '../components/shortcuts.ts'
import { formatTime } from '../components/times.ts'
import { decideTask, decideTasks, listBatchTasks, readBatch, readBatchTask } from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'
import { EditForm } from './edit-form.tsx'
import { EvidenceCard } from './review-evidence.tsx'
import { ReviewFiles } from './review-files.tsx'

const ROUTE = '/repos/$owner/$name/batches/$runId/review'
const REFRESH_MS = 3000

/** Shows the tasks of a batch for review. All actions have keyboard shortcuts. */
export function ReviewPage() {
  const params = useParams({ from: ROUTE })
  const tasks = useRead(listBatchTasks, { params }, { refetchMs: REFRESH_MS })
  if (tasks.data === undefined || tasks.data.tasks.length === 0)
    return (
      <Page title="Review" crumbs={<Crumbs />}>
        <Loaded query={tasks}>
          {() => (
            <Empty command={`assay batches create --repo ${params.owner}/${params.name} --easy 5`}>
              Tasks appear here as the batch creates them.
            </Empty>
          )}
        </Loaded>
      </Page>
    )
  return <ReviewQueue tasks={tasks.data.tasks} />
}

function Crumbs() {
  const { owner, name, runId } = useParams({ from: ROUTE })
  const { data } = useRead(readBatch, { params: { owner, name, runId } })
  return (
    <>
      <Link to="/repos/$owner/$name" params={{ owner, name }}>
        <bdi>
          {owner}/{name}
        </bdi>
      </Link>{' '}
      · {data === undefined ? <bdi>{runId}</bdi> : describeBatch(data)}
    </>
  )
}

function describeBatch({ createdAt, counts: { ready, approved, declined } }: ApiBody<typeof readBatch>): string {
  const undecided = ready - approved - declined
  return `batch of ${formatTime(createdAt)} · ${ready} ready, ${undecided} to review`
}

const isUndecided = ({ state, decision }: BatchTask): boolean => state === 'ready' && decision === null
const isUndecidedWithoutWarnings = (task: BatchTask): boolean => isUndecided(task) && task.concerns.length === 0

/** `keys` shows the list of shortcuts. */
type ReviewMode = 'read' | 'decline' | 'edit' | 'keys'

function ReviewQueue({ tasks }: { tasks: readonly BatchTask[] }) {
  const params = useParams({ from: ROUTE })
  const { task: chosenTaskId } = useSearch({ from: ROUTE })
  const navigate = useNavigate({ from: ROUTE })
  const [mode, setMode] = useState<ReviewMode>('read')
  // Shows the first task if none is chosen.
  const index = Math.max(
    0,
    tasks.findIndex(({ taskId }) => taskId === chosenTaskId),
  )
  const current = tasks[index]
  const choose = (task: BatchTask | undefined) => {
    setMode('read')
    if (task) void navigate({ search: { task: task.taskId }, replace: true, resetScroll: false })
  }
  const detail = useRead(
    readBatchTask,
    { params: { ...params, taskId: current?.taskId ?? '' } },
    { refetchMs: REFRESH_MS },
  )
  const decision = useDecision(current, () => choose(tasks.slice(index + 1).find(isUndecided)))
  const isDecidable = useHasPermission('write') && current?.state === 'ready'
  useShortcuts({
    j: () => choose(tasks[index + 1]),
    k: () => choose(tasks[index - 1]),
    '?': () => setMode('keys'),
    ...(isDecidable ? { a: decision.approve, r: () => setMode('decline'), e: () => setMode('edit') } : {}),
  })
  if (!current) return null
  return (
    <Page
      title={replaceUnsafeCharacters(current.title || current.taskId)}
      crumbs={<Crumbs />}
      state={<TaskChips task={current} />}
      actions={isDecidable && <ReviewActions onApprove={decision.approve} onMode={setMode} />}
    >
      {decision.error && <ProblemNote error={decision.error} />}
      {mode === 'decline' && <DeclineForm onCancel={() => setMode('read')} onDecline={decision.decline} />}
      {mode === 'keys' && <KeyHelp onClose={() => setMode('read')} />}
      <div className="review">
        <TaskList tasks={tasks} current={current} onChoose={choose} />
        <Loaded query={detail}>
          {(task) => (
            <TaskContent
              key={`${task.taskId} ${task.digest}`}
              task={task}
              isEditing={mode === 'edit'}
              onEnd={() => setMode('read')}
            />
          )}
        </Loaded>
      </div>
    </Page>
  )
}

/** Approves or declines the displayed version of a task. The server refuses the decision if the task has changed since. */
function useDecision(task: BatchTask | undefined, onDone: () => void) {
  const params = useParams({ from: ROUTE })
  const change = useChange(decideTask, { invalidates: [listBatchTasks, readBatchTask, readBatch], onDone })
  const decide = (decision: 'approved' | 'declined', note?: string) => {
    if (!task?.digest) return
    change.mutate({ params: { ...params, taskId: task.taskId }, body: { decision, digest: task.digest, note } })
  }
  return {
    error: change.error,
    approve: () => decide('approved'),
    decline: (note: string) => decide('declined', note),
  }
}

function ReviewActions({ onApprove, onMode }: { onApprove: () => void; onMode: (mode: ReviewMode) => void }) {
  return (
    <>
      <button type="button" className="button" onClick={() => onMode('decline')}>
        Decline <kbd>r</kbd>
      </button>
      <button type="button" className="button" onClick={() => onMode('edit')}>
        Edit <kbd>e</kbd>
      </button>
      <button type="button" className="button primary" onClick={onApprove}>
        Approve <kbd>a</kbd>
      </button>
    </>
  )
}

function TaskContent({ task, isEditing, onEnd }: { task: BatchTaskDetail; isEditing: boolean; onEnd: () => void }) {
  return (
    <>
      <div className="review-content">
        {isEditing ? <EditForm task={task} onEnd={onEnd} /> : <ReviewFiles task={task} />}
      </div>
      <EvidenceCard task={task} />
    </>
  )
}

function TaskChips({ task: { state, difficulty, pullRequest, decision } }: { task: BatchTask }) {
  return (
    <>
      {difficulty && <span className="chip">{difficulty}</span>}
      {pullRequest && <span className="chip">pull request {pullRequest.number}</span>}
      <span className={`chip ${decision === 'approved' ? 'pass' : ''}`}>{decision ?? state}</span>
    </>
  )
}

/** Returns a symbol for the state of a task, and the name of the state for screen readers. */
function toStateMark({ state, decision, concerns }: BatchTask): [mark: string, name: string] {
  if (decision === 'approved') return ['✓', 'approved']
  if (decision === 'declined') return ['–', 'declined']
  if (state === 'rejected') return ['×', 'rejected']
  if (state !== 'ready') return ['…', 'in progress']
  return concerns.length > 0 ? ['!', plural(concerns.length, 'warning')] : ['○', 'ready']
}

type TaskListProps = { tasks: readonly BatchTask[]; current: BatchTask; onChoose: (task: BatchTask) => void }

function TaskList({ tasks, current, onChoose }: TaskListProps) {
  return (
    <Card className="review-list">
      <BulkApproval tasks={tasks} />
      <ul className="rows">
        {tasks.map((task) => {
          const [mark, state] = toStateMark(task)
          return (
            <li key={task.taskId}>
              <button type="button" aria-current={task === current ? 'true' : undefined} onClick={() => onChoose(task)}>
                <bdi>{replaceUnsafeCharacters(task.taskId)}</bdi>
                <span title={state}>
                  {mark} <span className="hidden">{state}</span>
                </span>
              </button>
            </li>
          )
        })}
      </ul>
      <p className="small muted">
        <kbd>j</kbd> <kbd>k</kbd> next / previous · <kbd>?</kbd> keys
      </p>
    </Card>
  )
}

function BulkApproval({ tasks }: { tasks: readonly BatchTask[] }) {
  const params = useParams({ from: ROUTE })
  const mayWrite = useHasPermission('write')
  const decide = useChange(decideTasks, { invalidates: [listBatchTasks, readBatchTask, readBatch] })
  const withoutWarnings = tasks.filter(isUndecidedWithoutWarnings)
  if (!mayWrite || withoutWarnings.length < 2) return null
  const approve = () => {
    const decisions = withoutWarnings.map(({ taskId, digest }) => ({
      taskId,
      digest: digest ?? '',
      decision: 'approved' as const,
    }))
    decide.mutate({ params, body: { decisions } })
  }
  return (
    <>
      <button type="button" className="button" disabled={decide.isPending} onClick={approve}>
        Approve {withoutWarnings.length} without warnings
      </button>
      {decide.isError && <ProblemNote error={decide.error} />}
    </>
  )
}

function DeclineForm({ onDecline, onCancel }: { onDecline: (note: string) => void; onCancel: () => void }) {
  const [note, setNote] = useState('')
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => field.current?.focus(), [])
  return (
    <Card title="Decline this task">
      <form
        className="actions"
        onSubmit={(event) => {
          event.preventDefault()
          onDecline(note)
        }}
        onKeyDown={({ key }) => {
          if (key === 'Escape') onCancel()
        }}
      >
        <label htmlFor="reason">Reason</label>
        <input
          id="reason"
          ref={field}
          required
          maxLength={1000}
          value={note}
          onChange={({ target }) => setNote(target.value)}
        />
        <button type="submit" className="button primary">
          Decline
        </button>
        <button type="button" className="button" onClick={onCancel}>
          Cancel
        </button>
      </form>
    </Card>
  )
}

const SHORTCUTS: [key: string, action: string][] = [
  ['j', 'next task'],
  ['k', 'previous task'],
  ['a', 'approve'],
  ['r', 'decline with a reason'],
  ['e', 'edit the instruction'],
  ['?', 'this list'],
]

function KeyHelp({ onClose }: { onClose: () => void }) {
  return (
    <Card
      title="Keys"
      actions={
        <button type="button" className="button" onClick={onClose}>
          Close
        </button>
      }
    >
      <ul className="rows small">
        {SHORTCUTS.map(([key, action]) => (
          <li key={key}>
            <kbd>{key}</kbd> {action}
          </li>
        ))}
      </ul>
    </Card>
  )
}

/** Calls the action of a pressed key, except while the user types text. */
function useShortcuts(actions: Record<string, (() => void) | undefined>): void {
  const handleKey = useEffectEvent((event: KeyboardEvent) => {
    const action = isTyping(event) ? undefined : actions[event.key]
    if (!action) return
    event.preventDefault()
    action()
  })
  useEffect(() => {
    const listen = (event: KeyboardEvent) => handleKey(event)
    addEventListener('keydown', listen)
    return () => removeEventListener('keydown', listen)
  }, [])
}
