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
import { CLASS_NAMES, createSettingNamer, formatDuration, isControl } from './text.ts'

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
        {(status) => (
          <Loaded query={trials}>
            {(data) => <TaskTrials target={target} comparison={status} trials={data.trials} />}
          </Loaded>
        )}
      </Loaded>
    </Page>
  )
}

type TaskTrialsProps = { target: ComparisonTarget; comparison: Comparison; trials: readonly ComparisonTrial[] }

function TaskTrials({ target, comparison, trials }: TaskTrialsProps) {
  const [openTrial, setOpenTrial] = useState<string>()
  const name = createSettingNamer(comparison.settings)
  const controls = new Set(comparison.settings.filter(isControl).map(({ id }) => id))
  const scored = trials.filter(({ state, settingId }) => /^(passed|failed)$/.test(state) && !controls.has(settingId))
  const passed = scored.filter(({ state }) => state === 'passed')
  const opened = trials.find(({ id }) => id === openTrial)
  if (trials.length === 0) return <Empty>This comparison has no trial of the task.</Empty>
  return (
    <>
      <div className="cards">
        <Fact
          label="solved by"
          value={
            <>
              {passed.length} <small>of {plural(scored.length, 'trial')}</small>
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
              name={name(trial.settingId)}
              isOpen={openTrial === trial.id}
              onToggle={() => setOpenTrial(openTrial === trial.id ? undefined : trial.id)}
            />
          ))}
        </DataTable>
      </Card>
      {opened && (
        <Card title={`Changes by ${name(opened.settingId)}`}>
          <PatchView target={target} trial={opened} label="Patch" />
        </Card>
      )}
    </>
  )
}

function formatCheapest(passed: readonly ComparisonTrial[]): string {
  const costs = passed.flatMap(({ costUsd }) => costUsd ?? [])
  return costs.length === 0 ? '–' : usd(Math.min(...costs))
}

type TrialRowProps = { trial: ComparisonTrial; name: string; isOpen: boolean; onToggle: () => void }

function TrialRow({ trial, name, isOpen, onToggle }: TrialRowProps) {
  const { state, attempt, class: trialClass, costUsd, timings, explanation, error } = trial
  const reason = explanation ?? error ?? (state === 'failed' && trialClass ? CLASS_NAMES[trialClass] : '')
  return (
    <tr>
      <td>
        <bdi>{name}</bdi>
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
      <td className="number">{timings.total === null ? '–' : formatDuration(timings.total)}</td>
      <td>
        <button type="button" className="link-button" aria-expanded={isOpen} onClick={onToggle}>
          Show<span className="hidden"> the changes of {name}</span>
        </button>
      </td>
    </tr>
  )
}
