import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import type { PreviewSetting } from '../../../src/releases/shapes/schema.ts'
import { formatInterval, percent, usd } from '../../components/format.ts'
import { nameSetting } from '../comparisons/text.ts'
import { DataTable } from '../components/data-table.tsx'
import { Card } from '../components/page.tsx'

type SettingsChoiceProps = {
  settings: readonly PreviewSetting[]
  /** Keys of the chosen settings. */
  chosen: readonly string[]
  onChoose: (chosen: readonly string[]) => void
}

/** Lists every setting that has run on the repository. Settings that cannot be published have a disabled check box. */
export function SettingsChoice({ settings, chosen, onChoose }: SettingsChoiceProps) {
  const toggle = (key: string, isChosen: boolean) =>
    onChoose(isChosen ? [...chosen, key].toSorted() : chosen.filter((each) => each !== key))
  return (
    <Card title="Settings">
      <DataTable label="Settings" heads={['Setting', '#Solved', '#Tasks', '#USD per task', 'State']}>
        {settings.toSorted(byAccuracy).map((setting) => (
          <tr key={setting.key}>
            <td>
              <label className="check">
                <input
                  type="checkbox"
                  checked={setting.publishable && chosen.includes(setting.key)}
                  disabled={!setting.publishable}
                  onChange={({ target }) => toggle(setting.key, target.checked)}
                />{' '}
                <bdi>{replaceUnsafeCharacters(nameSetting(setting))}</bdi>
              </label>
            </td>
            <td className="number">
              {setting.accuracy === null ? '–' : percent(setting.accuracy)}{' '}
              {setting.stats?.ci95 && <span className="small muted">{formatInterval(setting.stats.ci95)}</span>}
            </td>
            <td className="number">{setting.tasks}</td>
            <td className="number">{setting.costPerTaskUsd === null ? '–' : usd(setting.costPerTaskUsd)}</td>
            <td>
              <SettingState setting={setting} />
            </td>
          </tr>
        ))}
      </DataTable>
    </Card>
  )
}

/** Orders settings by accuracy, the most accurate first and settings without results last. */
const byAccuracy = (a: PreviewSetting, b: PreviewSetting): number => (b.accuracy ?? -1) - (a.accuracy ?? -1)

/** Reasons why a setting cannot be published. */
const REASON_TEXTS: Record<NonNullable<PreviewSetting['reason']>, string> = {
  reference: 'a control without a model, never published',
  no_results: 'no results on approved tasks',
  cost_unknown: 'cost unknown',
}

function SettingState({ setting }: { setting: PreviewSetting }) {
  const { reason, selected, onFrontier, complete, errored, voided } = setting
  if (reason) return <span className="muted">{REASON_TEXTS[reason]}</span>
  const notes = [
    ...(selected && !complete ? ['results for some tasks only'] : []),
    ...(errored > 0 ? [`${errored} errored`] : []),
    ...(voided > 0 ? [`${voided} voided`] : []),
  ]
  return (
    <>
      {onFrontier && <span className="chip gold">frontier</span>} <span className="muted">{notes.join(' · ')}</span>
    </>
  )
}
