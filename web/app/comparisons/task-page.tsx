import { Link, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { Comparison, ComparisonTrial } from '../../../src/comparisons/shapes/schema.ts'
import { plural, usd } from '../../components/format.ts'
import { useRead } from '../api/use-api.ts'
import { DataTable } from '../components/data-table.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Fact, Page } from '../components/page.tsx'
import { PatchView } from './patch-view.tsx'
import { type ComparisonTarget, toComparisonLink, useComparisonTarget } from './scope.ts'
import { CLASS_NAMES, createSettingNamer, formatRoughDuration, isControl } from './text.ts'

const TRIALS_MAX = 200

/** Shows the trials of a task in every setting: their results, reasons for failures, and patches. */
export function TaskPage() {
  const target = useComparisonTarget()
  const { task = '' } = useSearch({ strict: false })
  const id = target.input.params.comparisonId
  const comparison = useRead(target.endpoints.read, target.input)
  const trials = useRead(target.endpoints.trials, { ...target.input, query: { task, limit: TRIALS_MAX } })
  return (
    <Page
      title={task}
      crumbs={
        <>
          <Link {...toComparisonLink(target.scope, id)}>
            <bdi>{target.name}</bdi>
          </Link>{' '}
          · {id.slice(0, 8)} · task
        </>
      }
    >
      <Loaded query={comparison}>
        {(loaded) => (
          <Loaded query={trials}>
            {(data) => <TaskTrials target={target} comparison={loaded} trials={data.trials} />}
          </Loaded>
        )}
      </Loaded>
    </Page>
  )
}

type TaskTrialsProps = { target: ComparisonTarget; comparison: Comparison; trials: readonly ComparisonTrial[] }

function TaskTrials({ target, comparison, trials }: TaskTrialsProps) {
  const [openTrialId, setOpenTrialId] = useState<string>()
  const nameOf = createSettingNamer(comparison.settings)
  const controlIds = new Set(comparison.settings.filter(isControl).map(({ id }) => id))
  const agentTrials = trials.filter(({ settingId }) => !controlIds.has(settingId))
  const passed = agentTrials.filter(({ state }) => state === 'passed')
  const failed = agentTrials.filter(({ state }) => state === 'failed')
  const openTrial = trials.find(({ id }) => id === openTrialId)
  if (trials.length === 0) return <Empty>This comparison has no trial of the task.</Empty>
  return (
    <>
      <div className="cards">
        <Fact
          label="solved by"
          value={
            <>
              {passed.length} <small>of {plural(passed.length + failed.length, 'trial')}</small>
            </>
          }
        />
        <Fact label="cheapest pass" value={formatCheapest(passed)} />
      </div>
      <Card title="Trials">
        <DataTable label="Trials" heads={['Setting', 'Result', 'Reason', '#USD', '#Time', 'Changes']}>
          {trials.map((trial) => (
            <TrialRow
              key={trial.id}
              trial={trial}
              settingName={nameOf(trial.settingId)}
              isOpen={openTrialId === trial.id}
              onToggle={() => setOpenTrialId(openTrialId === trial.id ? undefined : trial.id)}
            />
          ))}
        </DataTable>
      </Card>
      {openTrial && (
        <Card title={`Changes by ${nameOf(openTrial.settingId)}`}>
          <PatchView target={target} trial={openTrial} label="Patch" />
        </Card>
      )}
    </>
  )
}

function formatCheapest(passed: readonly ComparisonTrial[]): string {
  const costs = passed.flatMap(({ costUsd }) => costUsd ?? [])
  return costs.length === 0 ? '–' : usd(Math.min(...costs))
}

type TrialRowProps = { trial: ComparisonTrial; settingName: string; isOpen: boolean; onToggle: () => void }

function TrialRow({ trial, settingName, isOpen, onToggle }: TrialRowProps) {
  const { state, attempt, class: trialClass, costUsd, timings, explanation, error } = trial
  const reason = explanation ?? error ?? (state === 'failed' && trialClass ? CLASS_NAMES[trialClass] : '')
  return (
    <tr>
      <td>
        <bdi>{settingName}</bdi>
        {attempt > 1 && <span className="small faint"> attempt {attempt}</span>}
      </td>
      <td className="verdict">
        <span className={`mark ${state}`} aria-hidden="true" />{' '}
        <Link to="/trials/$trialId" params={{ trialId: trial.id }}>
          {state}
        </Link>
      </td>
      <td className="small muted">
        <bdi>{reason}</bdi>
      </td>
      <td className="number">{costUsd === null ? '–' : usd(costUsd)}</td>
      <td className="number">{timings.total === null ? '–' : formatRoughDuration(timings.total)}</td>
      <td>
        <button type="button" className="link-button" aria-expanded={isOpen} onClick={onToggle}>
          Show<span className="hidden"> the changes of {settingName}</span>
        </button>
      </td>
    </tr>
  )
}
