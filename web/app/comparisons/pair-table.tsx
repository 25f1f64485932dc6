import { Link } from '@tanstack/react-router'
import { memo, useState } from 'react'
import type { Comparison, ComparisonSetting } from '../../../src/comparisons/shapes/schema.ts'
import type { ComparisonPair } from '../../../src/comparisons/statistics/schema.ts'
import { usd } from '../../components/format.ts'
import { isUnprocessable } from '../api/api.ts'
import { useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty } from '../components/page.tsx'
import { type ComparisonTarget, toPairLink } from './scope.ts'
import { createNames, findLeader, nameSetting } from './text.ts'

type PairTableProps = { target: ComparisonTarget; comparison: Comparison }

/** Every other setting compared with a baseline, paired by task. */
export const PairTable = memo(({ target, comparison }: PairTableProps) => {
  const [chosen, setChosen] = useState<string>()
  const baseline =
    chosen ?? comparison.answer?.recommended ?? findLeader(comparison)?.id ?? comparison.settings[0]?.id ?? ''
  const name = createNames(comparison.settings)
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
          <select value={baseline} onChange={({ target: { value } }) => setChosen(value)}>
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
            <Rows pairs={data.pairs} name={name} toLink={(a, b) => toPairLink(target.scope, comparison.id, { a, b })} />
          )}
        </Loaded>
      )}
    </Card>
  )
})

/** The settings of a comparison do not change; only their results do. */
const SettingOptions = memo(
  ({ settings }: { settings: readonly ComparisonSetting[] }) =>
    settings.map((setting) => (
      <option key={setting.id} value={setting.id}>
        {nameSetting(setting)}
      </option>
    )),
  (before, after) => before.settings.length === after.settings.length,
)

export const VERDICTS = { better: 'better', worse: 'worse', cannot_tell: 'within noise' } as const

type RowsProps = {
  pairs: readonly ComparisonPair[]
  name: (id: string) => string
  toLink: (a: string, b: string) => ReturnType<typeof toPairLink>
}

/** Rows that are shown at once. Comparisons of many settings stay small. */
const ROWS_MAX = 20

/** Names and links of settings do not change, so that the rows are rendered again only for new results. */
const Rows = memo(({ pairs, name, toLink }: RowsProps) => {
  const [isWhole, setWhole] = useState(false)
  const shown = isWhole ? pairs : pairs.slice(0, ROWS_MAX)
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a table that scrolls must be reachable by keyboard */}
      <section className="table-scroll" tabIndex={0} aria-label="Differences">
        <table>
          <thead>
            <tr>
              <th>Setting</th>
              <th>Verdict</th>
              <th className="number">Points</th>
              <th className="number">95 % interval</th>
              <th className="number">Won</th>
              <th className="number">Lost</th>
              <th className="number">Tasks</th>
              <th className="number">USD per task</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((pair) => (
              <tr key={pair.a}>
                <td>
                  <Link {...toLink(pair.a, pair.b)}>
                    <bdi>{name(pair.a)}</bdi>
                  </Link>
                </td>
                <td className={pair.verdict === 'cannot_tell' ? 'muted' : 'strong'}>{VERDICTS[pair.verdict]}</td>
                <td className="number">{pair.difference ? formatSigned(pair.difference.points) : '–'}</td>
                <td className="number">{pair.difference ? formatRange(pair.difference) : '–'}</td>
                <td className="number">{pair.wonByA}</td>
                <td className="number">{pair.wonByB}</td>
                <td className="number">{pair.tasks}</td>
                <td className="number">{pair.costDifferenceUsd ? formatCost(pair.costDifferenceUsd.mean) : '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {shown.length < pairs.length && (
        <button type="button" className="link-button small" onClick={() => setWhole(true)}>
          Show all {pairs.length} settings
        </button>
      )}
    </>
  )
}, isSameRows)

function isSameRows(before: RowsProps, after: RowsProps): boolean {
  return before.pairs === after.pairs
}

const formatSigned = (points: number): string => {
  const whole = Math.round(points)
  return whole > 0 ? `+${whole}` : whole < 0 ? `−${-whole}` : '0'
}

export const formatRange = ({ low, high }: { low: number; high: number }): string =>
  `${formatSigned(low)} to ${formatSigned(high)}`

const formatCost = (amount: number): string =>
  amount === 0 ? usd(0) : `${amount < 0 ? '−' : '+'}${usd(Math.abs(amount))}`
