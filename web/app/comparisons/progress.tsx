import { memo } from 'react'
import type { Comparison, ComparisonSetting } from '../../../src/comparisons/shapes/schema.ts'
import { formatCount, formatInterval, percent, plural, usd } from '../../components/format.ts'
import { useRead } from '../api/use-api.ts'
import type { StreamState } from '../api/use-events.ts'
import { Card, Fact } from '../components/page.tsx'
import { formatTime } from '../components/times.ts'
import { isOpen } from './live.ts'
import type { ComparisonProps } from './scope.ts'
import { createSettingNamer, describeLimit, findLeader, formatDuration, nameSetting, STATE_NAMES } from './text.ts'

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

/** Says that the page is not up to date. Shows nothing while it is. */
export function StreamNote({ stream }: { stream: StreamState }) {
  if (stream === 'lost') return <output className="chip">connection lost, reconnecting…</output>
  if (stream === 'failed') return <output className="chip fail">× not live; reload the page</output>
  return null
}

/** Contains no counts, because the counts below it are updated more often. */
const COLLECTING = 'Collecting results. The answer follows when all trials have ended.'

/** The answer in words, or why there is none yet. */
export function AnswerCard({ comparison: { answer, settings, submissionError, pause } }: { comparison: Comparison }) {
  const name = createSettingNamer(settings)
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
          <span className="chip gold">recommended</span> <bdi>{name(answer.recommended)}</bdi>
          {answer.alternatives.length > 0 && (
            <>
              {' '}
              · not shown to be worse: <bdi>{answer.alternatives.slice(0, 3).map(name).join(', ')}</bdi>
              {answer.alternatives.length > 3 && ` and ${answer.alternatives.length - 3} others`}
            </>
          )}
        </p>
      )}
    </Card>
  )
}

/** Counts change with every trial. They are read here, so that the page around them is not rendered again. */
export function ProgressCards({ target, comparison: outline }: ComparisonProps) {
  const { data: comparison = outline } = useRead(target.endpoints.read, target.input)
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
  const done = trials.passed + trials.failed + trials.errored
  const parts = [
    trials.running > 0 && `${trials.running} running`,
    trials.errored > 0 && `${trials.errored} not scored`,
    trials.canceled > 0 && `${trials.canceled} canceled`,
    trials.reused > 0 && `${trials.reused} reused`,
  ].filter((part) => part !== false)
  return (
    <Fact
      label="trials"
      value={<Of value={formatCount(done)} of={formatCount(trials.total)} />}
      note={parts.join(' · ')}
    >
      <Bar share={trials.total === 0 ? 0 : done / trials.total} label="finished trials" />
    </Fact>
  )
})

function SpendFact({ comparison }: { comparison: Comparison }) {
  const { costUsd, budgetUsd, projectedCostUsd, pendingUsd } = comparison
  const projected = projectedCostUsd && isOpen(comparison)
  const notes = [
    projected && `about ${usd((projectedCostUsd.low + projectedCostUsd.high) / 2)} projected`,
    pendingUsd > 0 && `${usd(pendingUsd)} reserved`,
    budgetUsd === null && 'no budget',
  ].filter((part) => typeof part === 'string')
  return (
    <Fact
      label="spent"
      value={budgetUsd === null ? usd(costUsd) : <Of value={usd(costUsd)} of={usd(budgetUsd)} />}
      note={notes.join(' · ')}
    >
      {budgetUsd !== null && budgetUsd > 0 && <Bar share={(costUsd + pendingUsd) / budgetUsd} label="of the budget" />}
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
        note={finishedAt && `after ${formatDuration((Date.parse(finishedAt) - Date.parse(createdAt)) / 1000)}`}
      />
    )
  return (
    <Fact
      label="time left"
      value={etaSeconds === null ? 'not known yet' : formatDuration(etaSeconds)}
      note={describeLimit(comparison)}
    />
  )
}

/** Memoized: an unchanged setting stays the same object. */
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

const Of = ({ value, of }: { value: string; of: string }) => (
  <>
    {value} <small>of {of}</small>
  </>
)

function Bar({ share, label }: { share: number; label: string }) {
  const value = Math.round(100 * Math.min(1, share))
  return (
    <div
      className="bar"
      role="progressbar"
      aria-valuenow={value}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-label={label}
    >
      <span style={{ transform: `scaleX(${value / 100})` }} />
    </div>
  )
}
