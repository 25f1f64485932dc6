import { Link } from '@tanstack/react-router'
import { useEffect } from 'react'
import type { Comparison, ComparisonMatrix, ComparisonTrial } from '../../../src/comparisons/shapes/schema.ts'
import { usd } from '../../components/format.ts'
import { useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card } from '../components/page.tsx'
import type { MapCell } from './draw-map.ts'
import { toCell } from './map-model.ts'
import { type ComparisonTarget, toTaskLink } from './scope.ts'
import { CLASS_NAMES, createSettingNamer, formatRoughDuration } from './text.ts'

type CellCardProps = { target: ComparisonTarget; comparison: Comparison; matrix: ComparisonMatrix; cell: MapCell }

/** Lists the trials of the selected cell. */
export function CellCard({ target, comparison, matrix, cell }: CellCardProps) {
  const task = matrix.tasks[cell.task]?.name ?? ''
  const setting = matrix.settings[cell.setting] ?? ''
  const { letters } = toCell(matrix, cell.task, cell.setting)
  const trials = useRead(target.endpoints.trials, { ...target.input, query: { task, setting } }, { keepPrevious: true })
  const { refetch } = trials
  // biome-ignore lint/correctness/useExhaustiveDependencies: events change the letters of the cell, but not the trials
  useEffect(() => void refetch({ cancelRefetch: false }), [letters, refetch])
  return (
    <Card className="cell-card">
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
  const hasNotPassed = state === 'failed' || state === 'errored'
  const facts = [
    hasNotPassed && trialClass ? CLASS_NAMES[trialClass] : undefined,
    costUsd === null ? undefined : usd(costUsd),
    timings.total === null ? undefined : formatRoughDuration(timings.total),
    explanation ?? error,
  ].filter((fact) => fact !== undefined && fact !== null)
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
