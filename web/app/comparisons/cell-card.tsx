import { Link } from '@tanstack/react-router'
import type { Comparison, ComparisonMatrix, ComparisonTrial } from '../../../src/comparisons/shapes/schema.ts'
import { usd } from '../../components/format.ts'
import { useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card } from '../components/page.tsx'
import type { MapCell } from './draw-map.ts'
import { type ComparisonTarget, toTaskLink } from './scope.ts'
import { CLASS_NAMES, createSettingNamer, formatDuration } from './text.ts'

type CellCardProps = { target: ComparisonTarget; comparison: Comparison; matrix: ComparisonMatrix; cell: MapCell }

/** The trials of the selected cell. */
export function CellCard({ target, comparison, matrix, cell }: CellCardProps) {
  const task = matrix.tasks[cell.task]?.name ?? ''
  const setting = matrix.settings[cell.setting] ?? ''
  const letters = matrix.tasks[cell.task]?.cells.slice(
    cell.setting * matrix.attempts,
    (cell.setting + 1) * matrix.attempts,
  )
  const trials = useRead(target.endpoints.trials, { ...target.input, query: { task, setting } }, { keepPrevious: true })
  return (
    <Card className="cell-card" key={letters}>
      <p>
        <strong>
          <Link {...toTaskLink(target.scope, comparison.id, task)}>
            <bdi>{task}</bdi>
          </Link>
        </strong>{' '}
        <span className="muted">
          <bdi>{createSettingNamer(comparison.settings)(setting)}</bdi>
        </span>
      </p>
      <Loaded query={trials}>
        {(data) => (
          <ul className="rows small">
            {data.trials.map((trial) => (
              <TrialLine key={trial.id} trial={trial} />
            ))}
          </ul>
        )}
      </Loaded>
    </Card>
  )
}

function TrialLine({ trial }: { trial: ComparisonTrial }) {
  const { attempt, state, class: trialClass, costUsd, timings, error, explanation } = trial
  const facts = [
    state === 'failed' || state === 'errored' ? trialClass && CLASS_NAMES[trialClass] : undefined,
    costUsd === null ? undefined : usd(costUsd),
    timings.total === null ? undefined : formatDuration(timings.total),
    explanation ?? error,
  ].filter((fact) => typeof fact === 'string')
  return (
    <li>
      <span className={`mark ${state}`} aria-hidden="true" />{' '}
      <Link to="/trials/$trialId" params={{ trialId: trial.id }}>
        Attempt {attempt}
      </Link>{' '}
      {state}
      {facts.length > 0 && (
        <span className="muted">
          {' · '}
          <bdi>{facts.join(' · ')}</bdi>
        </span>
      )}
    </li>
  )
}
