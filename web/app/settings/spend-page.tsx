import { useState } from 'react'
import type { WorkspaceSpend } from '../../../src/comparisons/costs/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { formatDate, parseSettingId, plural, usd } from '../../components/format.ts'
import { useRead } from '../api/use-api.ts'
import { DataTable } from '../components/data-table.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Fact, Page } from '../components/page.tsx'
import { readSpend } from '../endpoints.gen.ts'

const PERIODS_DAYS = [7, 30, 90, 365] as const

/** Shows the spend of the workspace on models by day, provider and setting. */
export function SpendPage() {
  const [days, setDays] = useState(30)
  const spend = useRead(readSpend, { query: { days } }, { keepPrevious: true })
  return (
    <Page
      title="Spend"
      actions={
        <label>
          Last{' '}
          <select value={days} onChange={({ target }) => setDays(Number(target.value))}>
            {PERIODS_DAYS.map((period) => (
              <option key={period} value={period}>
                {period} days
              </option>
            ))}
          </select>
        </label>
      }
    >
      <Loaded query={spend}>
        {(loaded) =>
          loaded.days.length === 0 ? (
            <Card>
              <Empty command="assay compare assay/quick --model <model>">
                Costs of calls to models appear here by day, provider and setting, as the gateway has metered them.
              </Empty>
            </Card>
          ) : (
            <SpendCards spend={loaded} />
          )
        }
      </Loaded>
    </Page>
  )
}

const nameSpendSetting = ({ label, harness, reasoningLevel }: WorkspaceSpend['settings'][number]): string =>
  [label, harness, reasoningLevel].filter(Boolean).join(' · ')

function SpendCards({ spend }: { spend: WorkspaceSpend }) {
  const providers = sumBy(spend.days, ({ provider }) => provider).toSorted((a, b) => b.costUsd - a.costUsd)
  const days = sumBy(spend.days, ({ day }) => day).toReversed()
  const mostExpensive = spend.settings[0]
  return (
    <>
      <div className="cards">
        <Fact label="spent" value={usd(spend.costUsd)} note={`since ${formatDate(spend.from)}`} />
        <Fact label="days with spend" value={days.length} note={`${usd(spend.costUsd / days.length)} on average`} />
        <Fact
          label="most expensive setting"
          value={mostExpensive ? <bdi>{replaceUnsafeCharacters(nameSpendSetting(mostExpensive))}</bdi> : '–'}
          note={mostExpensive && `${usd(mostExpensive.costUsd)} on ${plural(mostExpensive.trials, 'trial')}`}
        />
      </div>
      <div className="columns">
        <AmountCard
          title="By day"
          head="Day"
          rows={days.map(({ key, costUsd }) => ({ key: formatDate(key), costUsd }))}
        />
        <AmountCard title="By provider" head="Provider" rows={providers} />
      </div>
      <Card title="By setting">
        <DataTable
          label="By setting"
          heads={['Model', 'Harness', 'Level', 'Configuration', '#Trials', '#USD', '#USD per trial']}
        >
          {spend.settings.map(({ id, label, harness, reasoningLevel, trials, costUsd }) => (
            <tr key={id}>
              <td>
                <bdi>{replaceUnsafeCharacters(label)}</bdi>
              </td>
              <td>{harness}</td>
              <td>{reasoningLevel}</td>
              <td>{parseSettingId(id).configuration}</td>
              <td className="number">{trials}</td>
              <td className="number">{usd(costUsd)}</td>
              <td className="number">{usd(costUsd / trials)}</td>
            </tr>
          ))}
        </DataTable>
        <p className="small muted">
          Trials that have finished. The total above also contains running trials and the creation of tasks.
        </p>
      </Card>
    </>
  )
}

/** The spend of one day or of one provider. `key` is the day or the name of the provider. */
type AmountRow = { key: string; costUsd: number }

function sumBy(days: WorkspaceSpend['days'], keyOf: (day: WorkspaceSpend['days'][number]) => string): AmountRow[] {
  return [...Map.groupBy(days, keyOf)].map(([key, entries]) => ({
    key,
    costUsd: entries.reduce((sum, { costUsd }) => sum + costUsd, 0),
  }))
}

/** Lists amounts with bars, whose lengths are relative to the largest amount. */
function AmountCard({ title, head, rows }: { title: string; head: string; rows: readonly AmountRow[] }) {
  const largestUsd = Math.max(...rows.map(({ costUsd }) => costUsd))
  return (
    <Card title={title}>
      <DataTable label={title} heads={[head, '#USD', 'Share']}>
        {rows.map(({ key, costUsd }) => (
          <tr key={key}>
            <td>{key}</td>
            <td className="number">{usd(costUsd)}</td>
            <td className="share">
              <div className="bar">
                <span style={{ width: `${(100 * costUsd) / largestUsd}%` }} />
              </div>
            </td>
          </tr>
        ))}
      </DataTable>
    </Card>
  )
}
