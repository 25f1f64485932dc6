import { Link } from '@tanstack/react-router'
import { memo, useState } from 'react'
import type { ComparisonSetting } from '../../../src/comparisons/shapes/schema.ts'
import type { ComparisonPair } from '../../../src/comparisons/statistics/schema.ts'
import { usd } from '../../components/format.ts'
import { isUnprocessable } from '../api/api.ts'
import { useRead } from '../api/use-api.ts'
import { DataTable } from '../components/data-table.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty } from '../components/page.tsx'
import { type ComparisonProps, toPairLink } from './scope.ts'
import { createSettingNamer, findLeader, nameSetting, VERDICT_NAMES } from './text.ts'

/** Compares every other setting with a baseline, paired by task. */
export const PairTable = memo(({ target, comparison }: ComparisonProps) => {
  const [chosenBaseline, setChosenBaseline] = useState<string>()
  const baseline =
    chosenBaseline ?? comparison.answer?.recommended ?? findLeader(comparison)?.id ?? comparison.settings[0]?.id ?? ''
  const nameOf = createSettingNamer(comparison.settings)
  const pairs = useRead(
    target.endpoints.pairs,
    { ...target.input, query: { baseline } },
    { enabled: comparison.settings.length > 1 },
  )
  if (comparison.settings.length < 2) return null
  return (
    <Card
      title="Differences"
      actions={
        <label>
          compared with{' '}
          <select value={baseline} onChange={({ target: { value } }) => setChosenBaseline(value)}>
            <SettingOptions settings={comparison.settings} />
          </select>
        </label>
      }
    >
      {isUnprocessable(pairs.error) ? (
        <Empty>Pairs appear when two settings have a result for the same task.</Empty>
      ) : (
        <Loaded query={pairs}>
          {(data) => (
            <PairRows
              pairs={data.pairs}
              nameOf={nameOf}
              toLink={(a, b) => toPairLink(target.scope, comparison.id, { a, b })}
            />
          )}
        </Loaded>
      )}
    </Card>
  )
})

/** Memoized by the number of settings: the settings of a comparison do not change, only their results do. */
const SettingOptions = memo(
  ({ settings }: { settings: readonly ComparisonSetting[] }) =>
    settings.map((setting) => (
      <option key={setting.id} value={setting.id}>
        {nameSetting(setting)}
      </option>
    )),
  (before, after) => before.settings.length === after.settings.length,
)

type PairRowsProps = {
  pairs: readonly ComparisonPair[]
  nameOf: (id: string) => string
  toLink: (a: string, b: string) => ReturnType<typeof toPairLink>
}

/** Maximum number of rows before the reader expands the table. */
const ROWS_MAX = 20

/** Memoized by the pairs: names and links of settings do not change. */
const PairRows = memo(({ pairs, nameOf, toLink }: PairRowsProps) => {
  const [isExpanded, setExpanded] = useState(false)
  const shown = isExpanded ? pairs : pairs.slice(0, ROWS_MAX)
  return (
    <>
      <DataTable
        label="Differences"
        heads={['Setting', 'Verdict', '#Points', '#95 % interval', '#Won', '#Lost', '#Tasks', '#USD per task']}
      >
        {shown.map((pair) => (
          <tr key={pair.a}>
            <td>
              <Link {...toLink(pair.a, pair.b)}>
                <bdi>{nameOf(pair.a)}</bdi>
              </Link>
            </td>
            <td className={pair.verdict === 'cannot_tell' ? 'muted' : 'strong'}>{VERDICT_NAMES[pair.verdict]}</td>
            <td className="number">{pair.difference ? formatSignedPoints(pair.difference.points) : '–'}</td>
            <td className="number">{pair.difference ? formatRange(pair.difference) : '–'}</td>
            <td className="number">{pair.wonByA}</td>
            <td className="number">{pair.wonByB}</td>
            <td className="number">{pair.tasks}</td>
            <td className="number">{pair.costDifferenceUsd ? formatSignedUsd(pair.costDifferenceUsd.mean) : '–'}</td>
          </tr>
        ))}
      </DataTable>
      {shown.length < pairs.length && (
        <button type="button" className="link-button small" onClick={() => setExpanded(true)}>
          Show all {pairs.length} settings
        </button>
      )}
    </>
  )
}, hasSamePairs)

function hasSamePairs(before: PairRowsProps, after: PairRowsProps): boolean {
  return before.pairs === after.pairs
}

const formatSignedPoints = (points: number): string => {
  const rounded = Math.round(points)
  if (rounded === 0) return '0'
  return rounded > 0 ? `+${rounded}` : `−${-rounded}`
}

/** Formats the interval of a difference in points: `−3 to +12`. */
export const formatRange = ({ low, high }: { low: number; high: number }): string =>
  `${formatSignedPoints(low)} to ${formatSignedPoints(high)}`

const formatSignedUsd = (amount: number): string =>
  amount === 0 ? usd(0) : `${amount < 0 ? '−' : '+'}${usd(Math.abs(amount))}`
