import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useLayoutEffect } from 'react'
import type { LocatedTrial } from '../../../src/comparisons/shapes/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { formatCount, plural, usd } from '../../components/format.ts'
import { useRead } from '../api/use-api.ts'
import { nameScope, toComparisonLink } from '../comparisons/scope.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card, Fact, Page } from '../components/page.tsx'
import { isTyping } from '../components/shortcuts.ts'
import { readTrialById } from '../endpoints.gen.ts'
import { CallsView } from './calls-view.tsx'
import { DiffView, FilesView, LogsView, VerifierView } from './file-views.tsx'
import { RecordingView } from './recording-view.tsx'
import { TrajectoryView } from './trajectory-view.tsx'
import { formatSeconds, isOpenTrial } from './trial-files.ts'
import type { TrialTab } from './trial-search.ts'

/** Shows a trial: the verdict, then the evidence for it. */
export function TrialPage() {
  const { trialId } = useParams({ from: '/trials/$trialId' })
  const trial = useRead(readTrialById, { params: { trialId } })
  if (trial.data === undefined)
    return (
      <Page title="Trial">
        <Loaded query={trial}>{() => null}</Loaded>
      </Page>
    )
  return <TrialContent key={trialId} trial={trial.data} />
}

const REFRESH_MS = 2000

function TrialContent({ trial }: { trial: LocatedTrial }) {
  const { tab = 'trajectory', step } = useSearch({ from: '/trials/$trialId' })
  // The page above shows the same read from the cache. Only here is it known whether the trial still changes.
  useRead(readTrialById, { params: { trialId: trial.id } }, { refetchMs: isOpenTrial(trial) ? REFRESH_MS : undefined })
  const { scope } = trial.comparison
  const { settingId, explanation, error, spoiled: failedAttempts, voided } = trial
  const reason = explanation ?? error
  return (
    <Page
      title={replaceUnsafeCharacters(trial.task.name)}
      crumbs={
        <>
          <Link {...toComparisonLink(scope, trial.comparison.id)}>
            <bdi>{nameScope(scope)}</bdi>
          </Link>{' '}
          · <bdi>{replaceUnsafeCharacters(settingId.replaceAll('|', ' · '))}</bdi> · attempt {trial.attempt}
        </>
      }
      state={<TrialChips trial={trial} />}
      actions={<NeighbourLinks trial={trial} tab={tab} />}
    >
      {reason && (
        <p className="explanation">
          <bdi>{replaceUnsafeCharacters(reason)}</bdi>
        </p>
      )}
      {voided && (
        <p>
          Excluded from the results: <bdi>{replaceUnsafeCharacters(voided.reason)}</bdi>
        </p>
      )}
      <TrialFacts trial={trial} />
      <Timeline trial={trial} />
      {failedAttempts.length > 0 && (
        <Card title="Earlier attempts">
          <ul className="rows small">
            {failedAttempts.map((attempt) => (
              <li key={attempt.at}>
                {attempt.class}: <bdi>{replaceUnsafeCharacters(attempt.error)}</bdi>
              </li>
            ))}
          </ul>
        </Card>
      )}
      <Card className="evidence">
        <Tabs trial={trial} current={tab} />
        <TabContent key={`${tab} ${trial.artifacts.length}`} trial={trial} tab={tab} step={step} />
      </Card>
    </Page>
  )
}

const STATE_SYMBOLS: Record<LocatedTrial['state'], string> = {
  passed: '✓',
  failed: '×',
  errored: '!',
  running: '●',
  queued: '○',
  canceled: '–',
}
const CHIP_CLASSES: Partial<Record<LocatedTrial['state'], string>> = {
  passed: 'pass',
  failed: 'fail',
  errored: 'fail',
  running: 'run',
}

function TrialChips({ trial: { state, class: trialClass, reusedFrom } }: { trial: LocatedTrial }) {
  return (
    <>
      <span className={`chip ${CHIP_CLASSES[state] ?? ''}`}>
        <span aria-hidden="true">{STATE_SYMBOLS[state]}</span> {state}
      </span>
      {trialClass !== null && trialClass !== 'verified' && (
        <span className="chip">{trialClass.replaceAll('_', ' ')}</span>
      )}
      {reusedFrom !== undefined && <span className="chip">reused from an earlier comparison</span>}
    </>
  )
}

/** Links to the trials of the same setting on the previous and the next task. The keys [ and ] open them too. */
function NeighbourLinks({ trial: { previous, next }, tab }: { trial: LocatedTrial; tab: TrialTab }) {
  const navigate = useNavigate()
  // A layout effect runs before the page is painted, so that the keys work as soon as the page is visible.
  useLayoutEffect(() => {
    const handleKey = (event: KeyboardEvent) => {
      const trialId = { '[': previous, ']': next }[event.key]
      if (!trialId || isTyping(event)) return
      void navigate({ to: '/trials/$trialId', params: { trialId }, search: { tab } })
    }
    addEventListener('keydown', handleKey)
    return () => removeEventListener('keydown', handleKey)
  }, [previous, next, tab, navigate])
  return (
    <>
      {previous !== null && (
        <Link className="button" to="/trials/$trialId" params={{ trialId: previous }} search={{ tab }}>
          Previous task <kbd>[</kbd>
        </Link>
      )}
      {next !== null && (
        <Link className="button" to="/trials/$trialId" params={{ trialId: next }} search={{ tab }}>
          Next task <kbd>]</kbd>
        </Link>
      )}
    </>
  )
}

function TrialFacts({ trial }: { trial: LocatedTrial }) {
  const { reward, costUsd, timings, usage, retries, isolation } = trial
  return (
    <div className="cards">
      <Fact label="reward" value={reward ?? '–'} note={<bdi>{describeReward(trial)}</bdi>} />
      <Fact label="cost" value={costUsd === null ? '–' : usd(costUsd)} note={describeCost(trial)} />
      <Fact
        label="time"
        value={timings.total === null ? '–' : formatSeconds(timings.total)}
        note={[isolation && `isolation ${isolation}`, retries > 0 && plural(retries, 'retry', 'retries')]
          .filter(Boolean)
          .join(' · ')}
      />
      <Fact label="tokens" value={usage ? formatCount(sumTokens(usage)) : '–'} note={usage && describeUsage(usage)} />
    </div>
  )
}

function describeReward({ rewards, verifyMode }: LocatedTrial): string {
  const others = Object.entries(rewards).filter(([name]) => name !== 'reward')
  if (others.length > 0) return replaceUnsafeCharacters(others.map(([name, value]) => `${name} ${value}`).join(', '))
  return verifyMode === null ? 'not verified' : `verified in mode ${verifyMode}`
}

const describeCost = ({ costSource, retriesCostUsd, pendingUsd }: LocatedTrial): string =>
  [
    costSource === 'none' ? 'no model' : (costSource ?? 'not known yet'),
    retriesCostUsd > 0 && `${usd(retriesCostUsd)} for retries`,
    pendingUsd > 0 && `${usd(pendingUsd)} reserved`,
  ]
    .filter(Boolean)
    .join(' · ')

type TrialUsage = NonNullable<LocatedTrial['usage']>

const sumTokens = ({ input, cacheRead, cacheWrite, output }: TrialUsage): number =>
  input + cacheRead + cacheWrite + output
const describeUsage = ({ input, cacheRead, cacheWrite, output }: TrialUsage): string =>
  `${formatCount(input)} in · ${formatCount(cacheRead + cacheWrite)} cached · ${formatCount(output)} out`

const PHASES = ['queue', 'prepare', 'agent', 'verify'] as const

/** Shows the phases in order, each as wide as its share of the duration. The bar leaves out the time in the queue. */
function Timeline({ trial: { timings } }: { trial: LocatedTrial }) {
  const phases = PHASES.flatMap((phase) => (timings[phase] === null ? [] : [{ phase, seconds: timings[phase] }]))
  const runPhases = phases.filter(({ phase }) => phase !== 'queue')
  const total = runPhases.reduce((sum, { seconds }) => sum + seconds, 0)
  if (total === 0) return null
  return (
    <Card title="Phases">
      <div className="timeline" aria-hidden="true">
        {runPhases.map(({ phase, seconds }) => (
          <span key={phase} className={phase} style={{ flexGrow: seconds / total }} />
        ))}
      </div>
      <ul className="timeline-key small">
        {phases.map(({ phase, seconds }) => (
          <li key={phase}>
            <span className={`key ${phase}`} aria-hidden="true" /> {phase}{' '}
            <span className="muted">{formatSeconds(seconds)}</span>
          </li>
        ))}
      </ul>
    </Card>
  )
}

const TAB_LABELS: Record<TrialTab, string> = {
  trajectory: 'Trajectory',
  diff: 'Diff',
  verifier: 'Verifier',
  logs: 'Logs',
  recording: 'Recording',
  calls: 'Model calls',
  files: 'Files',
}

function Tabs({ trial: { id, failedTests = [], artifacts }, current }: { trial: LocatedTrial; current: TrialTab }) {
  const counts: Partial<Record<TrialTab, string>> = {
    verifier: failedTests.length > 0 ? `${failedTests.length} failed` : '',
    files: String(artifacts.length),
  }
  return (
    <nav className="tabs" aria-label="Evidence">
      {(Object.keys(TAB_LABELS) as TrialTab[]).map((tab) => (
        <Link
          key={tab}
          to="/trials/$trialId"
          params={{ trialId: id }}
          search={{ tab }}
          replace
          resetScroll={false}
          aria-current={tab === current ? 'page' : undefined}
        >
          {TAB_LABELS[tab]} {counts[tab] && <span className="faint">{counts[tab]}</span>}
        </Link>
      ))}
    </nav>
  )
}

type TabContentProps = { trial: LocatedTrial; tab: TrialTab; step: number | undefined }

function TabContent({ trial, tab, step }: TabContentProps) {
  switch (tab) {
    case 'trajectory':
      return <TrajectoryView trial={trial} step={step} />
    case 'diff':
      return <DiffView trial={trial} />
    case 'verifier':
      return <VerifierView trial={trial} />
    case 'logs':
      return <LogsView trial={trial} />
    case 'recording':
      return <RecordingView trial={trial} />
    case 'calls':
      return <CallsView trial={trial} />
    case 'files':
      return <FilesView trial={trial} />
  }
}
