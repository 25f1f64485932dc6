import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { ComparisonPairWithTasks } from '../../../src/comparisons/statistics/schema.ts'
import { plural } from '../../components/format.ts'
import { isUnprocessable } from '../api/api.ts'
import { useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { formatRange } from './pair-table.tsx'
import { PatchView } from './patch-view.tsx'
import {
  type ComparisonProps,
  type ComparisonTarget,
  toComparisonLink,
  toPairLink,
  toTaskLink,
  useComparisonTarget,
} from './scope.ts'
import { createSettingNamer, findLeader, VERDICT_NAMES } from './text.ts'

/** Compares two settings: the difference as a sentence, then the tasks on which they differ. */
export function PairPage() {
  const target = useComparisonTarget()
  const id = target.input.params.comparisonId
  const comparison = useRead(target.endpoints.read, target.input)
  return (
    <Page
      title="Two settings"
      crumbs={
        <>
          <Link {...toComparisonLink(target.scope, id)}>
            <bdi>{target.name}</bdi>
          </Link>{' '}
          · {id.slice(0, 8)}
        </>
      }
    >
      <Loaded query={comparison}>{(loaded) => <PairChoice target={target} comparison={loaded} />}</Loaded>
    </Page>
  )
}

function PairChoice({ target, comparison }: ComparisonProps) {
  const search = useSearch({ strict: false })
  const navigate = useNavigate()
  const ids = comparison.settings.map((setting) => setting.id)
  const a = search.a ?? findLeader(comparison)?.id ?? ids[0] ?? ''
  const b = search.b ?? ids.find((id) => id !== a) ?? ''
  const nameOf = createSettingNamer(comparison.settings)
  const choose = (pair: { a: string; b: string }) => void navigate(toPairLink(target.scope, comparison.id, pair))
  const options = ids.map((id) => (
    <option key={id} value={id}>
      {nameOf(id)}
    </option>
  ))
  return (
    <>
      <div className="pair-choice">
        <label>
          A{' '}
          <select value={a} onChange={({ target: { value } }) => choose({ a: value, b })}>
            {options}
          </select>
        </label>
        <button type="button" className="button" onClick={() => choose({ a: b, b: a })}>
          Swap
        </button>
        <label>
          B{' '}
          <select value={b} onChange={({ target: { value } }) => choose({ a, b: value })}>
            {options}
          </select>
        </label>
      </div>
      {a === b ? (
        <Empty>Choose two different settings.</Empty>
      ) : (
        <Pair target={target} comparison={comparison} a={a} b={b} />
      )}
    </>
  )
}

function Pair({ target, comparison, a, b }: ComparisonProps & { a: string; b: string }) {
  const pair = useRead(target.endpoints.pair, { params: { ...target.input.params, a, b } })
  const nameOf = createSettingNamer(comparison.settings)
  if (isUnprocessable(pair.error)) return <Empty>The two settings have no task in common yet.</Empty>
  return (
    <Loaded query={pair}>
      {(data) => (
        <>
          <Card className="answer">
            <p className="answer-text">{describePair(data, nameOf)}</p>
            <CountsBar pair={data} />
          </Card>
          <DifferingTasks target={target} comparison={comparison} pair={data} />
        </>
      )}
    </Loaded>
  )
}

function describePair(pair: ComparisonPairWithTasks, nameOf: (id: string) => string): string {
  const { difference, tasks, verdict } = pair
  if (!difference) return `Both have results for ${plural(tasks, 'task')}. Five are needed to compare them.`
  const points = Math.round(difference.points)
  const change =
    points === 0 ? 'solved as much as' : `solved ${Math.abs(points)} points ${points > 0 ? 'more' : 'less'} than`
  const certainty =
    verdict === 'cannot_tell'
      ? 'Corrected for the number of pairs, that is within noise.'
      : `Corrected for the number of pairs, it is ${VERDICT_NAMES[verdict]}.`
  return `${nameOf(pair.a)} ${change} ${nameOf(pair.b)} on ${plural(tasks, 'task')}, 95 % interval ${formatRange(difference)}. ${certainty}`
}

/** Outcomes of a task, with their labels in the bar. */
const OUTCOMES = [
  { outcome: 'both', label: 'both' },
  { outcome: 'wonByA', label: 'only A' },
  { outcome: 'wonByB', label: 'only B' },
  { outcome: 'neither', label: 'neither' },
] as const

const CountsBar = ({ pair }: { pair: ComparisonPairWithTasks }) => (
  <ul className="counts" aria-label="Tasks solved">
    {OUTCOMES.filter(({ outcome }) => pair[outcome] > 0).map(({ outcome, label }) => (
      <li key={outcome} className={outcome} style={{ flexGrow: pair[outcome] }}>
        <b>{pair[outcome]}</b> {label}
      </li>
    ))}
  </ul>
)

function DifferingTasks({ target, comparison, pair }: ComparisonProps & { pair: ComparisonPairWithTasks }) {
  const [openTask, setOpenTask] = useState<string>()
  const differingTasks = pair.outcomes.filter(({ outcome }) => outcome === 'wonByA' || outcome === 'wonByB')
  return (
    <Card title={`${plural(differingTasks.length, 'task')} on which they differ`}>
      {differingTasks.length === 0 && <Empty>Both settings solved the same tasks.</Empty>}
      <ul className="rows">
        {differingTasks.map(({ task, outcome }) => (
          <li key={task.name}>
            <div className="row-line">
              <Link {...toTaskLink(target.scope, comparison.id, task.name)}>
                <bdi>{task.name}</bdi>
              </Link>
              <span className="muted">{outcome === 'wonByA' ? 'solved by A only' : 'solved by B only'}</span>
              <button
                type="button"
                className="link-button"
                aria-expanded={openTask === task.name}
                onClick={() => setOpenTask(openTask === task.name ? undefined : task.name)}
              >
                Patches<span className="hidden"> of {task.name}</span>
              </button>
            </div>
            {openTask === task.name && <Patches target={target} task={task.name} pair={pair} />}
          </li>
        ))}
      </ul>
    </Card>
  )
}

/** Shows the patches of both settings side by side, each from the first trial of the task. */
function Patches({ target, task, pair }: { target: ComparisonTarget; task: string; pair: ComparisonPairWithTasks }) {
  const trials = useRead(target.endpoints.trials, { ...target.input, query: { task, limit: 200 } })
  return (
    <Loaded query={trials}>
      {(data) => (
        <div className="columns">
          {(['a', 'b'] as const).map((side) => {
            const trial = data.trials.find(({ settingId }) => settingId === pair[side])
            return (
              <div key={side}>
                <h3>
                  {side.toUpperCase()} {trial && <span className="small muted">{trial.state}</span>}
                </h3>
                {trial && <PatchView target={target} trial={trial} label={`Patch of ${side.toUpperCase()}`} />}
              </div>
            )
          })}
        </div>
      )}
    </Loaded>
  )
}
