import { memo } from 'react'
import type { Comparison, ComparisonSetting } from '../../../src/comparisons/shapes/schema.ts'
import { formatInterval, percent, usd } from '../../components/format.ts'
import { DataTable } from '../components/data-table.tsx'
import { Card } from '../components/page.tsx'
import { listFrontier, nameSetting } from './text.ts'

/** Lists the settings with intervals, the most accurate first. */
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

/** Memoized, because settings without new results stay the same objects: the end of a trial renders one row. */
const SettingRow = memo(({ setting, isOnFrontier }: SettingRowProps) => {
  const { stats, trials, accuracy, costPerTaskUsd } = setting
  return (
    <tr>
      <td>
        <bdi>{nameSetting(setting)}</bdi> {isOnFrontier && <span className="chip gold">frontier</span>}
      </td>
      <td className="number">{accuracy === null ? '–' : percent(accuracy)}</td>
      <td>
        <IntervalBar ci95={stats.ci95} accuracy={accuracy} />
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

type IntervalBarProps = { ci95: { low: number; high: number } | null; accuracy: number | null }

function IntervalBar({ ci95, accuracy }: IntervalBarProps) {
  if (!ci95 || accuracy === null) return <span className="small faint">needs 5 tasks</span>
  return (
    <span className="interval">
      <span className="interval-bar" aria-hidden="true">
        <i style={{ left: `${ci95.low}%`, width: `${ci95.high - ci95.low}%` }} />
        <b style={{ left: `${accuracy}%` }} />
      </span>
      <span className="small">{formatInterval(ci95)}</span>
    </span>
  )
}
