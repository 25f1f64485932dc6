import { memo } from 'react'
import type { Comparison, ComparisonSetting } from '../../../src/comparisons/shapes/schema.ts'
import { formatInterval, percent, usd } from '../../components/format.ts'
import { DataTable } from '../components/data-table.tsx'
import { Card } from '../components/page.tsx'
import { listFrontier, nameSetting } from './text.ts'

/** Settings with intervals, the most accurate first. */
export const SettingsTable = memo(({ comparison }: { comparison: Comparison }) => {
  const settings = comparison.settings.toSorted((a, b) => (b.accuracy ?? -1) - (a.accuracy ?? -1))
  const frontier = listFrontier(settings)
  return (
    <Card title="Settings">
      <DataTable
        label="Settings"
        heads={[
          'Setting',
          '#Solved, %',
          '95 % interval',
          '#Tasks',
          '#Rank',
          '#USD per task',
          '#USD spent',
          '#Not scored',
        ]}
      >
        {settings.map((setting) => (
          <SettingRow key={setting.id} setting={setting} isOnFrontier={frontier.includes(setting.id)} />
        ))}
      </DataTable>
    </Card>
  )
})

type SettingRowProps = { setting: ComparisonSetting; isOnFrontier: boolean }

/** Memoized: unchanged settings stay the same objects, so one trial renders one row. */
const SettingRow = memo(({ setting, isOnFrontier }: SettingRowProps) => {
  const { stats, trials, accuracy, costPerTaskUsd } = setting
  return (
    <tr>
      <td>
        <bdi>{nameSetting(setting)}</bdi> {isOnFrontier && <span className="chip gold">frontier</span>}
      </td>
      <td className="number">{accuracy === null ? '–' : percent(accuracy)}</td>
      <td>
        <IntervalBar range={stats.ci95} value={accuracy} />
      </td>
      <td className="number">
        {setting.passed} of {setting.tasks}
      </td>
      <td className="number">{formatRank(stats.rank)}</td>
      <td className="number">{costPerTaskUsd === null ? '–' : usd(costPerTaskUsd)}</td>
      <td className="number">{usd(setting.costUsd)}</td>
      <td className="number">{trials.errored === 0 ? '–' : trials.errored}</td>
    </tr>
  )
})

const formatRank = (rank: { best: number; worst: number } | null | undefined): string => {
  if (!rank) return '–'
  return rank.best === rank.worst ? String(rank.best) : `${rank.best}–${rank.worst}`
}

type IntervalBarProps = { range: { low: number; high: number } | null; value: number | null }

function IntervalBar({ range, value }: IntervalBarProps) {
  if (!range || value === null) return <span className="small faint">from 5 tasks on</span>
  return (
    <span className="interval">
      <span className="interval-bar" aria-hidden="true">
        <i style={{ left: `${range.low}%`, width: `${range.high - range.low}%` }} />
        <b style={{ left: `${value}%` }} />
      </span>
      <span className="small">{formatInterval(range)}</span>
    </span>
  )
}
