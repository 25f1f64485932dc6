import { type FormEvent, useState } from 'react'
import { useChange } from '../api/use-api.ts'
import { ProblemNote } from '../components/problem-note.tsx'
import { useHasPermission } from '../session/session.tsx'
import { hasUnscoredTrials, isOpen } from './live.ts'
import type { ComparisonProps } from './scope.ts'

/** Buttons to pause, resume and cancel a comparison. Renders nothing for a key that may only read. */
export function Controls(props: ComparisonProps) {
  const { comparison } = props
  if (!useHasPermission('write')) return null
  const isStopped = ['paused', 'canceled', 'submission_failed'].includes(comparison.state)
  const canRunTrialsAgain = comparison.state === 'completed' && hasUnscoredTrials(comparison)
  return (
    <>
      {(isStopped || canRunTrialsAgain) && <ResumeForm {...props} />}
      {comparison.state === 'running' && <PauseButton {...props} />}
      {isOpen(comparison) && <CancelButton {...props} />}
    </>
  )
}

function ResumeForm({ target: { endpoints, input }, comparison }: ComparisonProps) {
  const resume = useChange(endpoints.resume, { invalidates: [endpoints.read, endpoints.matrix] })
  const [budget, setBudget] = useState(comparison.budgetUsd === null ? '' : String(comparison.budgetUsd))
  const submit = (event: FormEvent) => {
    event.preventDefault()
    resume.mutate({ ...input, body: budget === '' ? {} : { budgetUsd: Number(budget) } })
  }
  return (
    <form className="actions" onSubmit={submit}>
      <label>
        budget, USD{' '}
        <input
          className="short"
          type="number"
          min="0"
          step="any"
          placeholder="none"
          value={budget}
          onChange={({ target }) => setBudget(target.value)}
        />
      </label>
      <button type="submit" className="button primary" disabled={resume.isPending}>
        {comparison.state === 'completed' ? 'Run unscored trials again' : 'Resume'}
      </button>
      {resume.error && <ProblemNote error={resume.error} />}
    </form>
  )
}

function PauseButton({ target: { endpoints, input } }: ComparisonProps) {
  const pause = useChange(endpoints.pause, { invalidates: [endpoints.read, endpoints.matrix] })
  return (
    <>
      <button
        type="button"
        className="button"
        title="Running trials end; no further trial starts."
        disabled={pause.isPending}
        onClick={() => pause.mutate(input)}
      >
        Pause
      </button>
      {pause.error && <ProblemNote error={pause.error} />}
    </>
  )
}

/** Asks for confirmation, because canceling stops running trials. */
function CancelButton({ target: { endpoints, input } }: ComparisonProps) {
  const [isConfirming, setConfirming] = useState(false)
  const cancel = useChange(endpoints.cancel, { invalidates: [endpoints.read, endpoints.matrix] })
  if (!isConfirming)
    return (
      <button type="button" className="button" onClick={() => setConfirming(true)}>
        Cancel
      </button>
    )
  return (
    <span className="actions">
      <span className="small muted">Stop running trials? Results so far are kept.</span>
      <button type="button" className="button primary" disabled={cancel.isPending} onClick={() => cancel.mutate(input)}>
        Cancel comparison
      </button>
      <button type="button" className="button" onClick={() => setConfirming(false)}>
        Keep running
      </button>
      {cancel.error && <ProblemNote error={cancel.error} />}
    </span>
  )
}
