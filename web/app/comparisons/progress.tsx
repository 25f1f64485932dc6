import { memo } from 'react'
import type { Comparison, ComparisonSetting } from '../../../src/comparisons/shapes/schema.ts'
import { formatCount, formatInterval, percent, plural, usd } from '../../components/format.ts'
import { useRead } from '../api/use-api.ts'
import type { StreamState } from '../api/use-events.ts'
import { Card, Fact } from '../components/page.tsx'
import { formatTime } from '../components/times.ts'
import { isOpen } from './live.ts'
import type { ComparisonProps } from './scope.ts'
import { createSettingNamer, describeLimit, findLeader, formatRoughDuration, nameSetting, STATE_NAMES } from './text.ts'

export function StateChip({ comparison }: { comparison: Comparison }) {
  const { state } = comparison
  return <span className={`chip ${CHIP_CLASSES[state] ?? ''}`}>{`${STATE_SYMBOLS[state]} ${STATE_NAMES[state]}`}</span>
}

const CHIP_CLASSES: Partial<Record<Comparison['state'], string>> = {
  submitting: 'run',
  running: 'run',
  submission_failed: 'fail',
}

const STATE_SYMBOLS: Record<Comparison['state'], string> = {
  submitting: '○',
  submission_failed: '×',
  running: '●',
  paused: '‖',
  completed: '✓',
  canceled: '–',
}

/** Warns that the page is not up to date. Renders nothing while events arrive. */
export function StreamNote({ stream }: { stream: StreamState }) {
  if (stream === 'lost') return <output className="chip">connection lost, reconnecting…</output>
  if (stream === 'failed') return <output className="chip fail">× not live; reload the page</output>
  return null
}

const ALTERNATIVES_SHOWN_MAX = 3
/** Text without counts, because the counts below it are updated more often. */
const COLLECTING = 'Collecting results. The answer follows when all trials have ended.'

/** Shows the answer in words, or why there is none yet. */
export function AnswerCard({ comparison: { answer, settings, submissionError, pause } }: { comparison: Comparison }) {
  const nameOf = createSettingNamer(settings)
  return (
    <Card className="answer">
      {submissionError && (
        <p>
          <strong>The submission failed.</strong> <bdi>{submissionError.message}</bdi>{' '}
          {submissionError.retryable && 'Resume to try again.'}
        </p>
      )}
      {pause && (
        <p>
          <strong>Paused.</strong> <bdi>{pause.message}</bdi>
        </p>
      )}
      <p className="answer-text">
        <bdi>{answer && answer.state !== 'collecting' ? answer.text : COLLECTING}</bdi>
      </p>
      {answer?.recommended && (
        <p className="small muted">
          <span className="chip gold">recommended</span> <bdi>{nameOf(answer.recommended)}</bdi>
          {answer.alternatives.length > 0 && (
            <>
              {' '}
              · not shown to be worse:{' '}
              <bdi>{answer.alternatives.slice(0, ALTERNATIVES_SHOWN_MAX).map(nameOf).join(', ')}</bdi>
              {answer.alternatives.length > ALTERNATIVES_SHOWN_MAX &&
                ` and ${answer.alternatives.length - ALTERNATIVES_SHOWN_MAX} others`}
            </>
          )}
        </p>
      )}
    </Card>
  )
}

/**
 * Shows trials, spend, time and the leading setting. Their numbers change with every trial, so they are read here and not
 * by the page, which would be rendered again each time.
 */
export function ProgressCards({ target, comparison: pageComparison }: ComparisonProps) {
  const { data: comparison = pageComparison } = useRead(target.endpoints.read, target.input)
  return (
    <div className={isOpen(comparison) ? 'cards progress live' : 'cards progress'}>
      <TrialsFact trials={comparison.trials} />
      <SpendFact comparison={comparison} />
      <TimeFact comparison={comparison} />
      <LeaderFact leader={findLeader(comparison)} />
    </div>
  )
}

const TrialsFact = memo(({ trials }: Pick<Comparison, 'trials'>) => {
  const endedCount = trials.passed + trials.failed + trials.errored
  const notes = [
    trials.running > 0 && `${trials.running} running`,
    trials.errored > 0 && `${trials.errored} not scored`,
    trials.canceled > 0 && `${trials.canceled} canceled`,
    trials.reused > 0 && `${trials.reused} reused`,
  ].filter((note) => note !== false)
  return (
    <Fact
      label="trials"
      value={<OutOf value={formatCount(endedCount)} total={formatCount(trials.total)} />}
      note={notes.join(' · ')}
    >
      <ProgressBar share={trials.total === 0 ? 0 : endedCount / trials.total} label="finished trials" />
    </Fact>
  )
})

function SpendFact({ comparison }: { comparison: Comparison }) {
  const { costUsd, budgetUsd, projectedCostUsd, pendingUsd } = comparison
  const notes = [
    projectedCostUsd &&
      isOpen(comparison) &&
      `about ${usd((projectedCostUsd.low + projectedCostUsd.high) / 2)} projected`,
    pendingUsd > 0 && `${usd(pendingUsd)} reserved`,
    budgetUsd === null && 'no budget',
  ].filter((note) => typeof note === 'string')
  return (
    <Fact
      label="spent"
      value={budgetUsd === null ? usd(costUsd) : <OutOf value={usd(costUsd)} total={usd(budgetUsd)} />}
      note={notes.join(' · ')}
    >
      {budgetUsd !== null && budgetUsd > 0 && (
        <ProgressBar share={(costUsd + pendingUsd) / budgetUsd} label="of the budget" />
      )}
    </Fact>
  )
}

function TimeFact({ comparison }: { comparison: Comparison }) {
  const { etaSeconds, finishedAt, createdAt } = comparison
  if (!isOpen(comparison))
    return (
      <Fact
        label="ended"
        value={finishedAt ? formatTime(finishedAt) : '–'}
        note={finishedAt && `after ${formatRoughDuration((Date.parse(finishedAt) - Date.parse(createdAt)) / 1000)}`}
      />
    )
  return (
    <Fact
      label="time left"
      value={etaSeconds === null ? 'not known yet' : formatRoughDuration(etaSeconds)}
      note={describeLimit(comparison)}
    />
  )
}

/** Memoized, because a setting without new results stays the same object. */
const LeaderFact = memo(({ leader }: { leader: ComparisonSetting | undefined }) => {
  if (!leader || leader.accuracy === null) return <Fact label="leading" value="–" note="no results yet" />
  const { ci95, rank } = leader.stats
  const ties = rank ? rank.worst - rank.best : 0
  const tied = ties > 0 ? `; tied with ${ties === 1 ? 'another' : `${ties} others`}` : ''
  return (
    <Fact
      label="leading"
      value={<bdi>{nameSetting(leader)}</bdi>}
      note={`${percent(leader.accuracy)} of ${plural(leader.tasks, 'task')}${ci95 ? `, ${formatInterval(ci95)}` : ''}${tied}`}
    />
  )
})

const OutOf = ({ value, total }: { value: string; total: string }) => (
  <>
    {value} <small>of {total}</small>
  </>
)

function ProgressBar({ share, label }: { share: number; label: string }) {
  const percentage = Math.round(100 * Math.min(1, share))
  return (
    <div
      className="bar"
      role="progressbar"
      aria-valuenow={percentage}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-label={label}
    >
      <span style={{ transform: `scaleX(${percentage / 100})` }} />
    </div>
  )
}
