import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import type { BatchTaskDetail } from '../../../src/batches/schema.ts'
import { useApi, useChange } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { listBatchTasks, putBatchTaskFile, readBatchTask, readBatchTaskFile } from '../endpoints.gen.ts'

const ROUTE = '/repos/$owner/$name/batches/$runId/review'
const INSTRUCTION = 'instruction.md'

/** `onEnd` is called after saving or canceling. */
type EditFormProps = { task: BatchTaskDetail; onEnd: () => void }

/** Edits the instruction of a task. Saving it validates the task again. */
export function EditForm({ task, onEnd }: EditFormProps) {
  const api = useApi()
  const params = useParams({ from: ROUTE })
  const file = useQuery({
    queryKey: ['instruction', params, task.taskId, task.digest],
    queryFn: async () => {
      const input = { params: { ...params, taskId: task.taskId, path: INSTRUCTION } }
      const response = await api.openFile(readBatchTaskFile, input)
      return { content: await response.text(), etag: response.headers.get('etag') ?? '*' }
    },
    staleTime: Number.POSITIVE_INFINITY,
  })
  return (
    <Card title="Edit the instruction">
      <Loaded query={file}>
        {({ content, etag }) => <Editor task={task} content={content} etag={etag} onEnd={onEnd} />}
      </Loaded>
    </Card>
  )
}

type EditorProps = EditFormProps & { content: string; etag: string }

function Editor({ task, content, etag, onEnd }: EditorProps) {
  const params = useParams({ from: ROUTE })
  const [text, setText] = useState(content)
  const field = useRef<HTMLTextAreaElement>(null)
  useEffect(() => field.current?.focus(), [])
  const save = useChange(putBatchTaskFile, { invalidates: [listBatchTasks, readBatchTask], onDone: onEnd })
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        const fileParams = { ...params, taskId: task.taskId, path: INSTRUCTION }
        save.mutate({ params: fileParams, body: { content: text }, ifMatch: etag })
      }}
    >
      <textarea
        aria-label="Instruction"
        className="editor"
        rows={16}
        ref={field}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={({ key }) => {
          if (key === 'Escape') onEnd()
        }}
      />
      {save.isError && <ProblemNote error={save.error} />}
      <p className="actions">
        <button type="submit" className="button primary" disabled={save.isPending || text === content}>
          Save and validate again
        </button>
        <button type="button" className="button" onClick={onEnd}>
          Cancel
        </button>
      </p>
    </form>
  )
}
