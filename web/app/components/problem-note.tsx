import { ProblemReceived, ServiceUnreachable } from '../../../src/platform/http/client.ts'

type ProblemNoteProps = { error: unknown; onRetry?: (() => void) | undefined }

/** Shows an error where it happened: the problem, what to do, and the invalid fields. */
export function ProblemNote({ error, onRetry }: ProblemNoteProps) {
  const { title, detail, fields, requestId } = describeError(error)
  return (
    <div className="problem-note" role="alert">
      <p>
        <strong>{title}</strong> {detail}
      </p>
      {fields.length > 0 && (
        <ul>
          {fields.map(({ pointer, message }) => (
            <li key={`${pointer} ${message}`}>
              <code>{pointer}</code> {message}
            </li>
          ))}
        </ul>
      )}
      <p className="actions">
        {onRetry && (
          <button type="button" className="button" onClick={onRetry}>
            Try again
          </button>
        )}
        {requestId && <span className="small faint">Request {requestId}</span>}
      </p>
    </div>
  )
}

type ErrorText = {
  title: string
  detail: string
  fields: readonly { pointer: string; message: string }[]
  requestId?: string
}

function describeError(error: unknown): ErrorText {
  if (error instanceof ProblemReceived) {
    const { title, detail, errors = [], requestId } = error.problem
    return { title: `${title}.`, detail, fields: errors, requestId }
  }
  if (error instanceof ServiceUnreachable)
    return {
      title: 'The service does not respond.',
      detail: 'Check that it is running, then try again. Work that was started goes on without this page.',
      fields: [],
    }
  const detail = error instanceof Error ? error.message : String(error)
  return { title: 'This page has failed.', detail: `Reload it. The error is: ${detail}`, fields: [] }
}
